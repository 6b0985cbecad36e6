-- Frees a term whose holder's session is absent: neither alive nor a tombstone.
UPDATE leases SET holder = NULL, revoked = 0, offer_to = NULL, offer_load = NULL, changed = :seq
WHERE pool = :pool AND resource = :resource AND token = :token AND holder = :holder
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = :holder);
