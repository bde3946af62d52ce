-- Workers look for queued and interrupted runs many times a minute, in a table that may have millions of others.
CREATE INDEX IF NOT EXISTS runs_status ON runs (status, no);
