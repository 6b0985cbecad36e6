-- Creates a session. One that is there, alive or ended, stays as it is.
INSERT INTO sessions (id, pool, ttl_ms, beat, ended, reasserted, profile, changed)
VALUES (:id, :pool, :ttl_ms, :beat, 0, NULL, :profile, :seq)
ON CONFLICT (id) DO NOTHING;
