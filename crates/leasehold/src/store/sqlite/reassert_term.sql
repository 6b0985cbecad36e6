-- Decides whether a reasserted term is kept: unless the store has a newer token, or knows that this very term is
-- free or somebody else's. A revocation the store remembers stays with its term.
INSERT INTO leases (pool, resource, token, holder, ttl_ms, revoked, changed)
VALUES (:pool, :resource, :token, :holder, :ttl_ms, 0, :seq)
ON CONFLICT (pool, resource) DO UPDATE
SET token = excluded.token, holder = excluded.holder, ttl_ms = excluded.ttl_ms,
    revoked = (token = excluded.token AND revoked),
    offer_to = NULL, offer_load = NULL, changed = excluded.changed
WHERE token < excluded.token
   OR (token = excluded.token AND holder = excluded.holder);
