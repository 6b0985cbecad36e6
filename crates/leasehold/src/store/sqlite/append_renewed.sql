-- A member's last confirmed heartbeat, in the place of the one before; changes nothing if there is none.
UPDATE ledger SET entry = :entry WHERE pool = :pool AND renews = :renews;
