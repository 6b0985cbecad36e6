-- Writes a declared resource, or its removal, whose version was compared in the same transaction.
INSERT INTO resources (pool, resource, weight, requires, labels, document, removed, version, changed)
VALUES (:pool, :resource, :weight, :requires, :labels, :document, :removed, :version, :seq)
ON CONFLICT (pool, resource) DO UPDATE
SET weight = excluded.weight, requires = excluded.requires, labels = excluded.labels,
    document = excluded.document, removed = excluded.removed, version = excluded.version,
    changed = excluded.changed;
