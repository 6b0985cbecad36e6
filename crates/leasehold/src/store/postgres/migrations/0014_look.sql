-- Every call looks at the era, so that costs little: what cannot change while a connection lives is asked once for it.

-- Which server, which life of its process, which database: for one process of the server never anything else. IMMUTABLE, so that it becomes
-- a part of the plans which such a process keeps to itself. It is for `identity` and must not get into an index or a table.
CREATE FUNCTION leasehold.home() RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY[
        (SELECT system_identifier FROM pg_catalog.pg_control_system())::text,
        (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text,
        (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())::text];
END $$;

-- As before: which server, which of its histories, which life of its process, which database. A promotion makes another history without
-- a new process, so that is asked every time.
CREATE OR REPLACE FUNCTION leasehold.identity() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN concat_ws(':',
        (leasehold.home())[1], left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
        (leasehold.home())[2], (leasehold.home())[3]);
END $$;

-- As before: looks at the era in the snapshot of whoever asks.
CREATE OR REPLACE FUNCTION leasehold.look(seen bigint[]) RETURNS leasehold.era_now LANGUAGE plpgsql STABLE AS $$
DECLARE
    era leasehold.era_now;
    recorded text;
    is_own boolean;
    unheard_of boolean := false;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'a read-only replica' USING ERRCODE = 'LH002';
    END IF;
    SELECT e.nonce, e.frozen, e.token_base, e.ttl_max_ms, e.identity, e.xmin::text::bigint = e.written % 4294967296
    INTO era.nonce, era.frozen, era.token_base, era.ttl_max_ms, recorded, is_own FROM leasehold.era AS e;
    era.forgot := NOT FOUND;
    era.place := (pg_current_wal_lsn() - '0/0')::bigint;
    IF era.forgot THEN
        RETURN era;
    END IF;
    IF seen[1] <> era.nonce THEN
        unheard_of := NOT EXISTS (SELECT 1 FROM leasehold.past_eras AS p WHERE p.nonce = seen[1]);
    END IF;
    era.forgot := recorded <> leasehold.identity() OR NOT is_own
        OR coalesce(seen[1] = era.nonce AND era.place < seen[2], false)
        OR (unheard_of AND NOT era.frozen);
    era.remind := NOT era.forgot AND era.frozen
        AND (unheard_of OR coalesce(seen[3] > era.ttl_max_ms, false));
    RETURN era;
END $$;

-- Begins a call that writes, as before.
CREATE OR REPLACE FUNCTION leasehold.enter_era(seen bigint[], waits text, alone boolean DEFAULT false)
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
    -- Invariant: the snapshot is taken after the lock was got. For an assignment in a function that is VOLATILE there is a new one.
    era := leasehold.look(seen);
    IF era.remind THEN
        PERFORM leasehold.raise_ttl_max(seen[3]);
        IF seen[1] <> era.nonce THEN
            PERFORM leasehold.add_past(seen[1]);
        END IF;
        era.ttl_max_ms := greatest(era.ttl_max_ms, seen[3]);
    END IF;
    RETURN era;
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
