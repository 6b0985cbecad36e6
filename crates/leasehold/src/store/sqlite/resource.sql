-- The version a declared resource has; no row means absent.
SELECT version FROM resources WHERE pool = :pool AND resource = :resource;
