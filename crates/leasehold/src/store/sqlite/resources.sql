-- Declared resources, removed ones included, as far as they changed after a cursor. The sign before the order keeps SQLite from
-- going through the whole pool in that order.
SELECT resource, weight, requires, removed, version, labels, document FROM resources
WHERE pool = :pool AND changed > :since ORDER BY +resource;
