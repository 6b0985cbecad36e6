-- A tombstone by the holder's own word. What the session holds is free from here on.
UPDATE sessions SET ended = 1, changed = :seq WHERE id = :id AND ended = 0;
