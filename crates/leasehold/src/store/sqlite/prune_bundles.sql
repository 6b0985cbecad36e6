-- Drops what lies wholly beyond the bound.
DELETE FROM bundles WHERE line <= (SELECT seq FROM sqlite_sequence WHERE name = 'ledger') - :keep;
