-- A session of which the store may have forgotten anything says that it is there. A tombstone stays one.
INSERT INTO sessions (id, pool, ttl_ms, beat, ended, reasserted, profile, changed)
VALUES (:id, :pool, :ttl_ms, :beat, 0, :nonce, :profile, :seq)
ON CONFLICT (id) DO UPDATE
SET pool = excluded.pool, ttl_ms = excluded.ttl_ms, beat = max(beat, excluded.beat),
    reasserted = excluded.reasserted, profile = excluded.profile, changed = excluded.changed
WHERE ended = 0;
