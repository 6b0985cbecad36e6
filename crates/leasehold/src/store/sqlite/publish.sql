-- Keeps a listing. The same id is the same content, so the first one stays.
INSERT INTO listings (pool, id, content) VALUES (:pool, :id, :content)
ON CONFLICT (pool, id) DO NOTHING;
