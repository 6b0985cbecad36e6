-- Forgets a tombstone whose leases are cleared.
DELETE FROM sessions WHERE id = :id AND ended = 1;
