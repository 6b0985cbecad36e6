-- The lines of a pool after a line, oldest first.
SELECT line, entry FROM ledger WHERE pool = :pool AND line > :after ORDER BY line LIMIT :limit;
