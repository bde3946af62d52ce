-- parent is the run that a fork goes on from. takeovers counts those from holders that
-- died, since one has released the run.
ALTER TABLE runs ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN takeovers INTEGER NOT NULL DEFAULT 0;