-- Marks a term as revoked if somebody without a tombstone holds it.
UPDATE leases SET revoked = 1, changed = :seq
WHERE pool = :pool AND resource = :resource AND token = :token AND holder IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = leases.holder AND sessions.ended = 1);
