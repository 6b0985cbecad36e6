-- A tombstone by a listener's verdict: only if the beat is still the one that was heard.
UPDATE sessions SET ended = 1, changed = :seq WHERE id = :id AND ended = 0 AND beat = :heard;
