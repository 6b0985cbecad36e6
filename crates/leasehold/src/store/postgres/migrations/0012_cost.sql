-- What calls cost: what decides nothing waits for no disk, and what every call does is planned once for a connection, not
-- once for a call as functions in SQL are.

-- As before: which server, which of its histories, which life of its process, which database.
CREATE OR REPLACE FUNCTION leasehold.identity() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN concat_ws(':',
        (SELECT system_identifier FROM pg_catalog.pg_control_system()),
        left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
        (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
        (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()));
END $$;

CREATE OR REPLACE FUNCTION leasehold.raise_ttl_max(ttl bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE leasehold.era SET ttl_max_ms = ttl, written = leasehold.here() WHERE ttl_max_ms < ttl;
END $$;

CREATE OR REPLACE FUNCTION leasehold.raise_beat(me text, number bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE leasehold.sessions SET beat = number, beat_at = clock_timestamp(), changed = leasehold.here()
    WHERE id = me AND beat < number;
END $$;

-- Clears what a session with a tombstone held, as before. A server that loses this has the tombstone again, which says the same; and
-- whatever was decided because of it is on the disk only together with it.
CREATE OR REPLACE FUNCTION leasehold.collect(them text, at_most bigint, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'off');
    of_pool text;
    cleared bigint;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    SELECT s.pool INTO of_pool FROM leasehold.sessions AS s WHERE s.id = them AND s.ended FOR UPDATE;
    IF NOT FOUND OR era.frozen THEN
        RETURN leasehold.say(era, 'done');
    END IF;
    WITH held AS MATERIALIZED (
        SELECT l.pool, l.resource FROM leasehold.leases AS l WHERE l.holder = them
        ORDER BY l.pool, l.resource LIMIT at_most FOR UPDATE
    )
    UPDATE leasehold.leases AS l SET holder = NULL, revoked = false, changed = leasehold.here()
    FROM held WHERE l.pool = held.pool AND l.resource = held.resource;
    GET DIAGNOSTICS cleared = ROW_COUNT;
    PERFORM leasehold.tell(of_pool);
    IF cleared >= at_most THEN
        RETURN leasehold.say(era, 'more');
    END IF;
    DELETE FROM leasehold.sessions WHERE id = them;
    RETURN leasehold.say(era, 'done');
END $$;

-- Sets or removes a mark, as before. What a runner reports of its work is for people to read.
CREATE OR REPLACE FUNCTION leasehold.set_mark(
    of_pool text, of_kind text, about text, new_value text, expected bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, CASE WHEN of_kind = 'heartbeat' THEN 'off' ELSE 'on' END);
    now_version bigint;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF expected = 0 THEN
        INSERT INTO leasehold.marks (pool, kind, subject, value, version, changed)
        VALUES (of_pool, of_kind, about, new_value, 1, leasehold.here())
        ON CONFLICT (pool, kind, subject) DO NOTHING RETURNING version INTO now_version;
    ELSE
        UPDATE leasehold.marks SET value = new_value, version = version + 1, changed = leasehold.here()
        WHERE pool = of_pool AND kind = of_kind AND subject = about AND version = expected
        RETURNING version INTO now_version;
    END IF;
    IF now_version IS NULL THEN
        SELECT m.version INTO now_version FROM leasehold.marks AS m
        WHERE m.pool = of_pool AND m.kind = of_kind AND m.subject = about;
        RETURN leasehold.say(era, 'conflict', '{}', ARRAY[coalesce(now_version, 0)]);
    END IF;
    PERFORM leasehold.tell(of_pool);
    RETURN leasehold.say(era, 'done', '{}', ARRAY[now_version]);
END $$;
