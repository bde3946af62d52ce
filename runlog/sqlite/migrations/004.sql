-- summary is how the last batch that had one described the run.
ALTER TABLE runs ADD COLUMN summary BLOB;
