-- Decides whether the store has forgotten something, and freezes and thaws it.
--
-- Every call that writes takes the era's lock shared, and looks at the era in a statement of its own afterwards; what
-- changes the era takes it alone. So an era does not change under a call. A call that finds that the store has forgotten
-- says `forgot` and does nothing; its caller has `freeze` judge that, and calls again. Locks are held until the
-- transaction ends and are all the state there is: a pooler may pass each call to another connection.
--
-- `seen` is what the caller's handle remembers: the nonce, the position in the write-ahead log and the longest TTL.

CREATE TYPE leasehold.era_now AS (
    forgot     boolean,
    remind     boolean,
    nonce      bigint,
    frozen     boolean,
    token_base bigint,
    ttl_max_ms bigint,
    place      bigint
);

-- What every call that writes answers: what became of it, the era it was judged in, and one name and number an item.
CREATE TYPE leasehold.answer AS (
    said       text,
    nonce      bigint,
    frozen     boolean,
    ttl_max_ms bigint,
    place      bigint,
    names      text[],
    numbers    bigint[]
);

-- Which server, which of its histories, which life of its process, which database. A promotion, a restored copy, a restart
-- and a database that was created again each make it another.
CREATE FUNCTION leasehold.identity() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(':',
        (SELECT system_identifier FROM pg_catalog.pg_control_system()),
        left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
        (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
        (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))
$$;

-- The number of the transaction that this is.
CREATE FUNCTION leasehold.here() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.pg_current_xact_id()::text::bigint
$$;

CREATE FUNCTION leasehold.say(
    era leasehold.era_now, said text, names text[] DEFAULT '{}', numbers bigint[] DEFAULT '{}'
) RETURNS leasehold.answer LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(said, era.nonce, era.frozen, era.ttl_max_ms, era.place, names, numbers)::leasehold.answer
$$;

-- Tells who listens that something changed in a pool; in every pool, if none is named.
CREATE FUNCTION leasehold.tell(pool text) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.pg_notify('leasehold', pool)
$$;

-- Looks at the era in the snapshot of whoever asks. The store has forgotten if its identity or its own row is another
-- than recorded, if the log is behind a place that the caller has seen in this era, or if it never had the caller's era
-- (one that is frozen already was noticed by somebody else).
CREATE FUNCTION leasehold.look(seen bigint[]) RETURNS leasehold.era_now LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_era record;
    era leasehold.era_now;
    unheard_of boolean;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'a read-only replica' USING ERRCODE = 'LH002';
    END IF;
    SELECT e.*, e.xmin::text::bigint AS written_by INTO found_era FROM leasehold.era AS e;
    era.place := (pg_current_wal_lsn() - '0/0')::bigint;
    IF NOT FOUND THEN
        era.forgot := true;
        RETURN era;
    END IF;
    era.nonce := found_era.nonce;
    era.frozen := found_era.frozen;
    era.token_base := found_era.token_base;
    era.ttl_max_ms := found_era.ttl_max_ms;
    unheard_of := seen[1] IS DISTINCT FROM era.nonce AND seen[1] IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM leasehold.past_eras AS p WHERE p.nonce = seen[1]);
    era.forgot := found_era.identity <> leasehold.identity()
        OR found_era.written_by <> found_era.written % 4294967296
        OR coalesce(seen[1] = era.nonce AND era.place < seen[2], false)
        OR (unheard_of AND NOT era.frozen);
    era.remind := NOT era.forgot AND era.frozen
        AND (unheard_of OR coalesce(seen[3] > era.ttl_max_ms, false));
    RETURN era;
END $$;

-- Whoever thaws must wait for everybody that anybody remembers.
CREATE FUNCTION leasehold.raise_ttl_max(ttl bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE leasehold.era SET ttl_max_ms = ttl, written = leasehold.here() WHERE ttl_max_ms < ttl
$$;

CREATE FUNCTION leasehold.add_past(over_now bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO leasehold.past_eras (nonce) SELECT over_now WHERE over_now IS NOT NULL ON CONFLICT DO NOTHING
$$;

-- Begins a call that writes. `waits` says what its commit waits for: `on` is whatever the server is set to, but this
-- server's disk at least; `local` is this server's disk; `off` is nothing.
CREATE FUNCTION leasehold.enter(seen bigint[], waits text, alone boolean DEFAULT false)
RETURNS leasehold.era_now LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    era leasehold.era_now;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'transactions are not read committed' USING ERRCODE = 'LH003';
    END IF;
    IF waits <> 'on' OR current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', waits, true);
    END IF;
    IF alone THEN
        -- Others queue behind this one, so it does not wait long.
        PERFORM set_config('lock_timeout', '1s', true);
        PERFORM pg_advisory_xact_lock(7810756276994469740);
    ELSE
        PERFORM pg_advisory_xact_lock_shared(7810756276994469740);
    END IF;
    -- Invariant: a statement of its own, whose snapshot is taken after the lock was got.
    SELECT * INTO era FROM leasehold.look(seen);
    IF era.remind THEN
        PERFORM leasehold.raise_ttl_max(seen[3]);
        IF seen[1] <> era.nonce THEN
            PERFORM leasehold.add_past(seen[1]);
        END IF;
        era.ttl_max_ms := greatest(era.ttl_max_ms, seen[3]);
    END IF;
    RETURN era;
END $$;

-- Tells a frozen store what the caller remembers, for callers that only read.
CREATE FUNCTION leasehold.remind(seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
BEGIN
    RETURN leasehold.say(leasehold.enter(seen, 'on'), 'done');
END $$;

-- Begins a new era in which nothing is granted or ended until it is thawed, unless the era is no longer the one that was
-- judged. A store without an era may have forgotten everything.
CREATE FUNCTION leasehold.freeze(judged bigint, fresh bigint, ttl_unknown bigint, seen bigint[])
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now;
BEGIN
    era := leasehold.enter(seen, 'on', true);
    IF era.nonce IS DISTINCT FROM judged THEN
        RETURN leasehold.say(era, 'changed');
    END IF;
    era.frozen := true;
    IF judged IS NULL THEN
        era.ttl_max_ms := greatest(ttl_unknown, seen[3]);
        INSERT INTO leasehold.era (identity, nonce, frozen, token_base, ttl_max_ms, written)
        VALUES (leasehold.identity(), fresh, true, 0, era.ttl_max_ms, leasehold.here());
    ELSE
        era.ttl_max_ms := greatest(era.ttl_max_ms, seen[3]);
        UPDATE leasehold.era AS e
        SET identity = leasehold.identity(), nonce = fresh, frozen = true, ttl_max_ms = era.ttl_max_ms,
            written = leasehold.here();
        PERFORM leasehold.add_past(judged);
    END IF;
    PERFORM leasehold.add_past(seen[1]);
    era.nonce := fresh;
    -- Rows from another server may name transactions that this one has yet to see.
    UPDATE leasehold.sessions SET changed = leasehold.here() WHERE changed > leasehold.here();
    UPDATE leasehold.leases SET changed = leasehold.here() WHERE changed > leasehold.here();
    UPDATE leasehold.marks SET changed = leasehold.here() WHERE changed > leasehold.here();
    UPDATE leasehold.resources SET changed = leasehold.here() WHERE changed > leasehold.here();
    PERFORM leasehold.tell('');
    RETURN leasehold.say(era, 'frozen');
END $$;

-- Ends a freeze: who did not reassert under its nonce is over, and tokens go on above all that may have been forgotten.
CREATE FUNCTION leasehold.thaw(under bigint, base bigint, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now;
BEGIN
    era := leasehold.enter(seen, 'on', true);
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF NOT era.frozen OR era.nonce <> under THEN
        RETURN leasehold.say(era, 'changed');
    END IF;
    UPDATE leasehold.sessions SET ended = true, changed = leasehold.here()
    WHERE NOT ended AND reasserted IS DISTINCT FROM under;
    UPDATE leasehold.era AS e SET frozen = false, token_base = greatest(e.token_base, base), written = leasehold.here();
    PERFORM leasehold.tell('');
    era.frozen := false;
    RETURN leasehold.say(era, 'done');
END $$;
