-- Every run has one row, which every append updates. That is what checks the hold, so
-- the row is kept small and has room beside it for its next versions.
CREATE TABLE runs (
	no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id          text COLLATE "C" NOT NULL UNIQUE,
	workflow    text NOT NULL,
	title       text NOT NULL,
	parent      text NOT NULL,
	status      text NOT NULL,
	created     timestamptz NOT NULL,
	updated     timestamptz NOT NULL,
	epoch       bigint NOT NULL,
	hold        bigint NOT NULL,           -- of the acquisition that holds the run: a number nobody else has, 0 once it is released
	rev         bigint NOT NULL DEFAULT 0, -- how many writes by holders there were
	head        bigint NOT NULL DEFAULT 0, -- sequence number of the last record
	snapshot    bigint NOT NULL DEFAULT 0, -- and of the last snapshot
	bytes       bigint NOT NULL DEFAULT 0, -- of the frames
	takeovers   integer NOT NULL DEFAULT 0,
	cancel      boolean NOT NULL DEFAULT false,
	owner       text NOT NULL,             -- who holds the run, for people
	lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE records (
	run   bigint NOT NULL,                 -- runs.no; a foreign key would be checked for every record
	seq   bigint NOT NULL,
	frame bytea NOT NULL,
	PRIMARY KEY (run, seq)
);

-- Servers that were built without lz4 keep to their default.
DO $$ BEGIN
	ALTER TABLE records ALTER COLUMN frame SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR syntax_error THEN
	NULL;
END $$;
