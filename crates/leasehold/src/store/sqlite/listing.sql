-- The content of a listing.
SELECT content FROM listings WHERE pool = :pool AND id = :id;
