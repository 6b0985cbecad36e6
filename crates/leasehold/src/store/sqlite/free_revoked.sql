-- Frees a term that is held and was revoked.
UPDATE leases SET holder = NULL, revoked = 0, offer_to = NULL, offer_load = NULL, changed = :seq
WHERE pool = :pool AND resource = :resource AND token = :token AND holder IS NOT NULL AND revoked = 1;
