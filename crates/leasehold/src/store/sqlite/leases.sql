-- Who holds what, freed ones included, as far as it changed after a cursor.
SELECT resource, token, holder, ttl_ms, revoked, offer_to, offer_load FROM leases
WHERE pool = :pool AND changed > :since ORDER BY resource;
