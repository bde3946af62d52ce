-- A row has the frames of one append, or of a part of a large one, behind each other;
-- pos is that of the last of them. Rows of older schemas have one frame.
ALTER TABLE records RENAME COLUMN frame TO frames;

-- What many runs append at a time comes here first, as it arrives, and is moved to records
-- when it has grown: a commit then fills a few pages, and does not touch one for every
-- run. A run's records are those of both tables. Rows never change, and their numbers go
-- up for ever: who empties the table leaves an empty row with the next number. What is in
-- a row is told in recent.go.
CREATE TABLE recent (
	no      INTEGER PRIMARY KEY,
	batches BLOB NOT NULL
) STRICT;
INSERT INTO recent (no, batches) VALUES (1, x'');

-- Rows of recent in which something could not be read when they were emptied.
CREATE TABLE damaged (
	no      INTEGER PRIMARY KEY,
	batches BLOB NOT NULL
) STRICT;
