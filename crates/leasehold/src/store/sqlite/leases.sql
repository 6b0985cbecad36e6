-- Who holds what, freed ones included, as far as it changed after a cursor. The sign before the order keeps SQLite from going
-- through the whole pool in that order: what changed is found by its index, and is little.
SELECT resource, token, holder, ttl_ms, revoked, offer_to, offer_load FROM leases
WHERE pool = :pool AND changed > :since ORDER BY +resource;
