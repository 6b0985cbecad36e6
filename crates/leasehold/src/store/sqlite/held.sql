-- Who has a resource, under which token.
SELECT holder, token FROM leases WHERE pool = :pool AND resource = :resource;
