-- Whether lines of the ledger can be bundled: files of earlier versions came without.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'bundles');
