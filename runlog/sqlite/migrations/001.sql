-- Every run has one row. An append touches it only when the status or the snapshot
-- pointer changes. AUTOINCREMENT: the number of a deleted run is never used again,
-- so a stale writer of it cannot reach a later run.
CREATE TABLE runs (
	no          INTEGER PRIMARY KEY AUTOINCREMENT,
	id          TEXT NOT NULL UNIQUE,
	workflow    TEXT NOT NULL,
	title       TEXT NOT NULL,
	status      TEXT NOT NULL,
	created     INTEGER NOT NULL,           -- Unix nanoseconds, as all times here
	updated     INTEGER NOT NULL,
	epoch       INTEGER NOT NULL DEFAULT 0,
	snapshot    INTEGER NOT NULL DEFAULT 0, -- sequence number of the last snapshot
	cancel      INTEGER NOT NULL DEFAULT 0,
	owner       TEXT NOT NULL DEFAULT '',   -- who holds the run, for people
	holder      TEXT NOT NULL DEFAULT '',   -- the owner file whose lock proves that they live
	lease_until INTEGER NOT NULL DEFAULT 0
) STRICT;

-- pos is runs.no << 32 | seq, so a run is one range of one b-tree and a sequence
-- number can be taken once.
CREATE TABLE records (
	pos   INTEGER PRIMARY KEY,
	frame BLOB NOT NULL
) STRICT;

-- fences counts commits of unknown outcome that were settled by writing over them.
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT;
INSERT INTO meta (name, value) VALUES ('fences', 0);
