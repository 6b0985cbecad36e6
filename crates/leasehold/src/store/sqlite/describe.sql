-- Replaces what a living session publishes about itself.
UPDATE sessions SET profile = :profile, changed = :seq WHERE id = :id AND ended = 0;
