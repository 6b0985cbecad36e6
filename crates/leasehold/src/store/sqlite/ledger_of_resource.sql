-- The lines about one resource after a line, oldest first.
SELECT line, entry FROM ledger
WHERE pool = :pool AND resource = :resource AND line > :after ORDER BY line LIMIT :limit;
