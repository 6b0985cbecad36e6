-- Decides who gets a resource: the caller, if nobody was given it, its holder let go, or there is a tombstone
-- of its holder. A holder that is merely absent keeps it. Gives back the new token; no row means held.
INSERT INTO leases (pool, resource, token, holder, ttl_ms, revoked, changed)
VALUES (:pool, :resource, :floor + 1, :holder, :ttl_ms, 0, :seq)
ON CONFLICT (pool, resource) DO UPDATE
SET token = max(token + 1, excluded.token), holder = excluded.holder, ttl_ms = excluded.ttl_ms, revoked = 0,
    offer_to = NULL, offer_load = NULL, changed = excluded.changed
WHERE holder IS NULL
   OR EXISTS (SELECT 1 FROM sessions WHERE sessions.id = leases.holder AND sessions.ended = 1)
RETURNING token;
