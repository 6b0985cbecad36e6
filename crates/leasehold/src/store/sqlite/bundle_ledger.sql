-- Lets lines of the ledger that come together be one row, where each by itself would be three entries in indexes. It has the
-- numbers from `first` to `line`; `resources` is every resource that is in it, each between two ends of line.
CREATE TABLE bundles (
    line      INTEGER PRIMARY KEY,
    first     INTEGER NOT NULL,
    pool      TEXT    NOT NULL,
    resources TEXT    NOT NULL,
    content   TEXT    NOT NULL
);
CREATE INDEX bundles_pool ON bundles (pool, line);
