-- Writes a mark, or its removal, whose version was compared in the same transaction.
INSERT INTO marks (pool, kind, subject, value, version, changed)
VALUES (:pool, :kind, :subject, :value, :version, :seq)
ON CONFLICT (pool, kind, subject) DO UPDATE
SET value = excluded.value, version = excluded.version, changed = excluded.changed;
