-- Operators' marks, removed ones included, as far as they changed after a cursor.
SELECT kind, subject, value, version FROM marks
WHERE pool = :pool AND changed > :since ORDER BY kind, subject;
