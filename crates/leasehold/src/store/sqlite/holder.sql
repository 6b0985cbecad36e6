-- Who has a resource: whoever was given it and neither let go nor has a tombstone. No row means nobody.
SELECT holder, token FROM leases
WHERE pool = :pool AND resource = :resource AND holder IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = leases.holder AND sessions.ended = 1);
