-- What a call on a session is judged by.
SELECT pool, ttl_ms, beat, ended, reasserted FROM sessions WHERE id = :id;
