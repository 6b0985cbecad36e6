-- Frees a term if exactly this holder has it under exactly this token.
UPDATE leases
SET holder = NULL, revoked = 0, offer_to = :offer_to, offer_load = :offer_load, changed = :seq
WHERE pool = :pool AND resource = :resource AND holder = :holder AND token = :token;
