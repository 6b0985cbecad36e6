-- The schema of the first version, as it was: files that have it must be opened for good.
-- Everything a store remembers. Rows that carry `changed` hold the era's `seq` at their last change, so that
-- a reader with a cursor finds exactly what is new to it.

-- One row: which unbroken memory this is. `seq` rises with every transaction that changes something.
CREATE TABLE era (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    identity   TEXT    NOT NULL,
    nonce      INTEGER NOT NULL,
    frozen     INTEGER NOT NULL,
    token_base INTEGER NOT NULL,
    ttl_max_ms INTEGER NOT NULL,
    seq        INTEGER NOT NULL
);

CREATE TABLE past_eras (
    nonce INTEGER PRIMARY KEY
);

-- The `seq` of a pool's last change that is worth a hint: anything but beats and ledger rows.
CREATE TABLE news (
    pool TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL
) WITHOUT ROWID;

-- `reasserted` is the nonce of the freeze in which the session last said what it holds.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    pool       TEXT    NOT NULL,
    ttl_ms     INTEGER NOT NULL,
    beat       INTEGER NOT NULL,
    ended      INTEGER NOT NULL,
    reasserted INTEGER,
    profile    TEXT    NOT NULL,
    changed    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_changed ON sessions (pool, changed);

-- Rows are never deleted: a token outlives its holder, and the resource too. `offer_load` is an unsigned
-- 64-bit number in the bits of a signed one.
CREATE TABLE leases (
    pool       TEXT    NOT NULL,
    resource   TEXT    NOT NULL,
    token      INTEGER NOT NULL,
    holder     TEXT,
    ttl_ms     INTEGER NOT NULL,
    revoked    INTEGER NOT NULL,
    offer_to   TEXT,
    offer_load INTEGER,
    changed    INTEGER NOT NULL,
    PRIMARY KEY (pool, resource)
) WITHOUT ROWID;
CREATE INDEX leases_changed ON leases (pool, changed);
CREATE INDEX leases_holder ON leases (holder) WHERE holder IS NOT NULL;
CREATE INDEX leases_revoked ON leases (holder) WHERE revoked = 1;

-- `value` is null once a mark was removed.
CREATE TABLE marks (
    pool    TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    value   TEXT,
    version INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (pool, kind, subject)
) WITHOUT ROWID;

CREATE TABLE resources (
    pool     TEXT    NOT NULL,
    resource TEXT    NOT NULL,
    weight   INTEGER NOT NULL,
    requires TEXT    NOT NULL,
    removed  INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    changed  INTEGER NOT NULL,
    PRIMARY KEY (pool, resource)
) WITHOUT ROWID;
CREATE INDEX resources_changed ON resources (pool, changed);

CREATE TABLE listings (
    pool    TEXT NOT NULL,
    id      TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (pool, id)
);

-- `renews` is the member whose confirmed heartbeat a line is: there is one such line for each.
CREATE TABLE ledger (
    line     INTEGER PRIMARY KEY AUTOINCREMENT,
    pool     TEXT NOT NULL,
    resource TEXT,
    renews   TEXT,
    entry    TEXT NOT NULL
);
CREATE UNIQUE INDEX ledger_renews ON ledger (pool, renews) WHERE renews IS NOT NULL;
CREATE INDEX ledger_resource ON ledger (pool, resource, line);
CREATE INDEX ledger_pool ON ledger (pool, line);
