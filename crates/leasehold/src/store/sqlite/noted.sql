-- Whether anything is not in the rows yet.
SELECT EXISTS (SELECT 1 FROM notes);
