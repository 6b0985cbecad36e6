-- What is not in the rows yet, in the order in which it was done.
SELECT content FROM notes ORDER BY line;
