-- The lines of a pool after a line that lie in bundles, oldest first.
SELECT first, content FROM bundles WHERE pool = :pool AND line > :after ORDER BY line;
