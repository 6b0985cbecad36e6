-- The version a mark has; no row means absent.
SELECT version FROM marks WHERE pool = :pool AND kind = :kind AND subject = :subject;
