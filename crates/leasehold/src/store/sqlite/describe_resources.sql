-- Gives resources labels and a document. A program that does not know of them reads and writes the rest as before.
ALTER TABLE resources ADD COLUMN labels TEXT;
ALTER TABLE resources ADD COLUMN document TEXT;
