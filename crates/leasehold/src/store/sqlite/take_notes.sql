-- Lets claims be noted, a row for a commit, instead of being written into the rows of sessions and leases at once. Nobody
-- changes those rows while there is a note, whatever program it is: a version that does not know of notes would decide by
-- rows that are out of date.
CREATE TABLE notes (
    line    INTEGER PRIMARY KEY,
    content TEXT NOT NULL
);
-- Has a row only within a transaction, of a program that knows of notes and changes rows that none of them is about.
CREATE TABLE lifted (
    one INTEGER PRIMARY KEY
);
CREATE TRIGGER sessions_open_noted BEFORE INSERT ON sessions
WHEN EXISTS (SELECT 1 FROM notes) AND NOT EXISTS (SELECT 1 FROM lifted)
BEGIN SELECT RAISE(ABORT, 'there are notes that are not settled; try again'); END;
CREATE TRIGGER sessions_change_noted BEFORE UPDATE ON sessions
WHEN EXISTS (SELECT 1 FROM notes) AND NOT EXISTS (SELECT 1 FROM lifted)
BEGIN SELECT RAISE(ABORT, 'there are notes that are not settled; try again'); END;
CREATE TRIGGER sessions_forget_noted BEFORE DELETE ON sessions
WHEN EXISTS (SELECT 1 FROM notes) AND NOT EXISTS (SELECT 1 FROM lifted)
BEGIN SELECT RAISE(ABORT, 'there are notes that are not settled; try again'); END;
CREATE TRIGGER leases_grant_noted BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM notes) AND NOT EXISTS (SELECT 1 FROM lifted)
BEGIN SELECT RAISE(ABORT, 'there are notes that are not settled; try again'); END;
CREATE TRIGGER leases_change_noted BEFORE UPDATE ON leases
WHEN EXISTS (SELECT 1 FROM notes) AND NOT EXISTS (SELECT 1 FROM lifted)
BEGIN SELECT RAISE(ABORT, 'there are notes that are not settled; try again'); END;
