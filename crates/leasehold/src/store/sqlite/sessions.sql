-- Who is there, ended ones included, as far as it changed after a cursor.
SELECT id, ttl_ms, beat, ended, profile FROM sessions
WHERE pool = :pool AND changed > :since ORDER BY id;
