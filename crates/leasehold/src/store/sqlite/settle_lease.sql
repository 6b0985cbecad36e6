-- Writes down what claims made of a lease.
INSERT INTO leases (pool, resource, token, holder, ttl_ms, revoked, changed)
VALUES (:pool, :resource, :token, :holder, :ttl_ms, 0, :seq)
ON CONFLICT (pool, resource) DO UPDATE
SET token = excluded.token, holder = excluded.holder, ttl_ms = excluded.ttl_ms, revoked = 0,
    offer_to = NULL, offer_load = NULL, changed = excluded.changed;
