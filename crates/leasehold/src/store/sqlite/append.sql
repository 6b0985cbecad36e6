-- One line of the ledger.
INSERT INTO ledger (pool, resource, entry) VALUES (:pool, :resource, :entry);
