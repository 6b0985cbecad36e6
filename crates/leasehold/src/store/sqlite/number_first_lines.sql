-- The same for the first lines of all.
INSERT INTO sqlite_sequence (name, seq) VALUES ('ledger', :count);
