-- What the claims of one commit came to, before it is in the rows.
INSERT INTO notes (content) VALUES (:content);
