-- Many lines of the ledger.
INSERT INTO bundles (line, first, pool, resources, content) VALUES (:line, :first, :pool, :resources, :content);
