-- The same of bundles with anything about one resource.
SELECT first, content FROM bundles
WHERE pool = :pool AND line > :after AND instr(resources, char(10) || :resource || char(10)) > 0 ORDER BY line;
