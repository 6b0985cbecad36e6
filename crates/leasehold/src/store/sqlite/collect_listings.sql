-- Forgets the listings that no living session of the pool publishes.
DELETE FROM listings
WHERE pool = :pool AND id NOT IN (
    SELECT profile ->> 'listing' FROM sessions
    WHERE pool = :pool AND ended = 0 AND profile ->> 'listing' IS NOT NULL
);
