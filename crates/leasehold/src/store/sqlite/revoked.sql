-- The revoked terms of a session: those its beats do not extend.
SELECT resource, token FROM leases WHERE holder = :holder AND revoked = 1 ORDER BY resource;
