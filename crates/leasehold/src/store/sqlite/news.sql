-- Remembers that a pool changed in a way worth a hint.
INSERT INTO news (pool, seq) VALUES (:pool, :seq)
ON CONFLICT (pool) DO UPDATE SET seq = excluded.seq;
