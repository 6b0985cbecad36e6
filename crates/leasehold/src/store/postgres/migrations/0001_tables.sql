-- Everything a store remembers. Rows that carry `changed` hold the number of the transaction that changed them last, so
-- that a reader who knows an older snapshot finds exactly what is new to it.

-- One row: which unbroken memory this is. `written` is the transaction that wrote the row; a row that was put here by
-- another one (a restored dump, somebody's own statement) is not the row that it says it is.
CREATE TABLE leasehold.era (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    identity   text    NOT NULL,
    nonce      bigint  NOT NULL,
    frozen     boolean NOT NULL,
    token_base bigint  NOT NULL,
    ttl_max_ms bigint  NOT NULL,
    written    bigint  NOT NULL
);

-- Eras that are over: whoever still lives in one of them has slept through a thaw.
CREATE TABLE leasehold.past_eras (
    nonce bigint PRIMARY KEY
);

-- `reasserted` is the nonce of the freeze in which the session last said what it holds. `beat_at` is for people to see;
-- nothing is decided by it. No index holds what a beat changes, so that a beat rewrites one row and no more.
CREATE TABLE leasehold.sessions (
    id         text COLLATE "C" PRIMARY KEY,
    pool       text COLLATE "C" NOT NULL,
    ttl_ms     bigint      NOT NULL,
    beat       bigint      NOT NULL,
    ended      boolean     NOT NULL,
    reasserted bigint,
    profile    text        NOT NULL,
    listing    text COLLATE "C",
    beat_at    timestamptz NOT NULL,
    changed    bigint      NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX sessions_pool ON leasehold.sessions (pool);

-- Rows are never deleted: a token outlives its holder, and the resource too. `offer_load` is an unsigned 64-bit number
-- in the bits of a signed one.
CREATE TABLE leasehold.leases (
    pool       text COLLATE "C" NOT NULL,
    resource   text COLLATE "C" NOT NULL,
    token      bigint  NOT NULL,
    holder     text COLLATE "C",
    ttl_ms     bigint  NOT NULL,
    revoked    boolean NOT NULL,
    offer_to   text COLLATE "C",
    offer_load bigint,
    changed    bigint  NOT NULL,
    PRIMARY KEY (pool, resource)
);
CREATE INDEX leases_changed ON leasehold.leases (pool, changed);
CREATE INDEX leases_holder ON leasehold.leases (holder) WHERE holder IS NOT NULL;
CREATE INDEX leases_revoked ON leasehold.leases (holder) WHERE revoked;

-- `value` is null once a mark was removed.
CREATE TABLE leasehold.marks (
    pool    text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    value   text,
    version bigint NOT NULL,
    changed bigint NOT NULL,
    PRIMARY KEY (pool, kind, subject)
);

CREATE TABLE leasehold.resources (
    pool     text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    weight   bigint  NOT NULL,
    requires text    NOT NULL,
    removed  boolean NOT NULL,
    version  bigint  NOT NULL,
    changed  bigint  NOT NULL,
    PRIMARY KEY (pool, resource)
);
CREATE INDEX resources_changed ON leasehold.resources (pool, changed);

CREATE TABLE leasehold.listings (
    pool    text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    content text NOT NULL,
    PRIMARY KEY (pool, id)
);

-- `renews` is the member whose confirmed heartbeat a line is: there is one such line for each.
CREATE TABLE leasehold.ledger (
    line     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool     text COLLATE "C" NOT NULL,
    resource text COLLATE "C",
    renews   text COLLATE "C",
    entry    text NOT NULL
);
CREATE UNIQUE INDEX ledger_renews ON leasehold.ledger (pool, renews) WHERE renews IS NOT NULL;
CREATE INDEX ledger_resource ON leasehold.ledger (pool, resource, line);
CREATE INDEX ledger_pool ON leasehold.ledger (pool, line);

-- The newest migration that was applied; asked by whoever opens the store.
CREATE FUNCTION leasehold.schema_version() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
    SELECT max(version) FROM leasehold.migrations
$$;
