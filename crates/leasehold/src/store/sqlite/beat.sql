-- Raises a living session's beat; a number at or below the stored one changes nothing.
UPDATE sessions SET beat = :beat, changed = :seq
WHERE id = :id AND ended = 0 AND beat < :beat;
