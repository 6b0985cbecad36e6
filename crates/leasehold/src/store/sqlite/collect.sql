-- Clears what a session with a tombstone held, so that the tombstone can be forgotten.
UPDATE leases SET holder = NULL, revoked = 0, changed = :seq
WHERE holder = :holder AND EXISTS (SELECT 1 FROM sessions WHERE id = :holder AND ended = 1);
