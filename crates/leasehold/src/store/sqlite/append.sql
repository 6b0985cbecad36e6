-- One line of the ledger.
INSERT INTO ledger (pool, resource, renews, entry) VALUES (:pool, :resource, :renews, :entry);
