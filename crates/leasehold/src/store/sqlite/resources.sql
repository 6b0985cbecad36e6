-- Declared resources, removed ones included, as far as they changed after a cursor.
SELECT resource, weight, requires, removed, version, labels, document FROM resources
WHERE pool = :pool AND changed > :since ORDER BY resource;
