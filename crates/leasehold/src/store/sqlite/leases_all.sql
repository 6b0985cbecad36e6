-- Who holds what, freed ones included, all of it: in the order of its key, so that nothing is sorted.
SELECT resource, token, holder, ttl_ms, revoked, offer_to, offer_load FROM leases
WHERE pool = :pool AND changed > :since ORDER BY resource;
