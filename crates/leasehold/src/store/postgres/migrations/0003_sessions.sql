-- Decides what becomes of sessions. A session's row is locked before it is judged, always before any lease, so that a
-- verdict, a close and a grant of one session come one after the other.

-- Judges a call of a session by the era, its own record, and whether anything it was told of is missing. In a frozen
-- store only a session that reasserted under the present nonce is let through.
CREATE FUNCTION leasehold.meet(
    era leasehold.era_now, me text, my_era bigint, confirmed bigint,
    OUT said text, OUT my_pool text, OUT my_ttl_ms bigint
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own leasehold.sessions;
    known boolean;
BEGIN
    IF era.forgot THEN
        said := 'forgot';
        RETURN;
    END IF;
    SELECT * INTO own FROM leasehold.sessions AS s WHERE s.id = me FOR NO KEY UPDATE;
    known := FOUND;
    my_pool := own.pool;
    my_ttl_ms := own.ttl_ms;
    IF known AND own.ended THEN
        said := 'gone';
    ELSIF era.frozen AND NOT (known AND my_era = era.nonce AND own.reasserted IS NOT DISTINCT FROM era.nonce) THEN
        said := 'frozen';
    ELSIF my_era <> era.nonce AND NOT EXISTS (SELECT 1 FROM leasehold.past_eras AS p WHERE p.nonce = my_era) THEN
        -- The caller lived through an era that the store never had.
        said := 'forgot';
    ELSIF my_era <> era.nonce OR NOT known THEN
        said := 'gone';
    ELSIF own.beat < confirmed THEN
        said := 'forgot';
    ELSE
        said := 'done';
    END IF;
END $$;

-- Raises a session's beat; a number at or below the stored one changes nothing.
CREATE FUNCTION leasehold.raise_beat(me text, number bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE leasehold.sessions SET beat = number, beat_at = clock_timestamp(), changed = leasehold.here()
    WHERE id = me AND beat < number
$$;

-- Creates a session. One that is there, alive or ended, stays as it is.
CREATE FUNCTION leasehold.open(
    me text, of_pool text, ttl bigint, my_profile text, my_listing text, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    has_ended boolean;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    SELECT s.ended INTO has_ended FROM leasehold.sessions AS s WHERE s.id = me;
    IF has_ended THEN
        RETURN leasehold.say(era, 'gone');
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    ELSIF has_ended IS NULL THEN
        INSERT INTO leasehold.sessions
            (id, pool, ttl_ms, beat, ended, reasserted, profile, listing, beat_at, changed)
        VALUES (me, of_pool, ttl, 0, false, NULL, my_profile, my_listing, clock_timestamp(), leasehold.here())
        ON CONFLICT (id) DO NOTHING;
        PERFORM leasehold.raise_ttl_max(ttl);
        PERFORM leasehold.tell(of_pool);
        era.ttl_max_ms := greatest(era.ttl_max_ms, ttl);
    END IF;
    RETURN leasehold.say(era, 'done');
END $$;

-- One row, whatever the session holds. Its commit waits for this server's disk only: a failover is noticed by the
-- identity, so a standby need not have heard it. It does wait for the disk: when a process of the server dies, the others
-- go on under the same identity, and a beat that was confirmed must not be missing then.
CREATE FUNCTION leasehold.beat(me text, my_era bigint, number bigint, confirmed bigint, seen bigint[])
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2500ms' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'local');
    met record;
    revoked_names text[];
    revoked_tokens bigint[];
BEGIN
    SELECT * INTO met FROM leasehold.meet(era, me, my_era, confirmed);
    IF met.said <> 'done' THEN
        RETURN leasehold.say(era, met.said);
    END IF;
    PERFORM leasehold.raise_beat(me, number);
    SELECT array_agg(l.resource), array_agg(l.token) INTO revoked_names, revoked_tokens
    FROM (SELECT resource, token FROM leasehold.leases
          WHERE holder = me AND revoked ORDER BY resource) AS l;
    RETURN leasehold.say(era, 'done', coalesce(revoked_names, '{}'), coalesce(revoked_tokens, '{}'));
END $$;

-- Replaces what a living session publishes about itself, and raises its beat.
CREATE FUNCTION leasehold.describe(
    me text, my_era bigint, number bigint, confirmed bigint, my_profile text, my_listing text, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'local');
    met record;
BEGIN
    SELECT * INTO met FROM leasehold.meet(era, me, my_era, confirmed);
    IF met.said = 'done' THEN
        PERFORM leasehold.raise_beat(me, number);
        UPDATE leasehold.sessions
        SET profile = my_profile, listing = my_listing, changed = leasehold.here() WHERE id = me;
        PERFORM leasehold.tell(met.my_pool);
    END IF;
    RETURN leasehold.say(era, met.said);
END $$;

-- A tombstone by the holder's own word, in a frozen store too. What the session holds is free from here on.
CREATE FUNCTION leasehold.close(me text, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    of_pool text;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    UPDATE leasehold.sessions SET ended = true, changed = leasehold.here()
    WHERE id = me AND NOT ended RETURNING pool INTO of_pool;
    IF FOUND THEN
        PERFORM leasehold.tell(of_pool);
    END IF;
    RETURN leasehold.say(era, 'done');
END $$;

-- A tombstone by a listener's verdict: only if the beat is still the one that was heard in this era.
CREATE FUNCTION leasehold.end_silent(them text, heard bigint, my_era bigint, seen bigint[])
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    found_session leasehold.sessions;
    known boolean;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    -- Invariant: locked first, then judged, so that a beat that was on its way is seen.
    SELECT * INTO found_session FROM leasehold.sessions AS s WHERE s.id = them FOR NO KEY UPDATE;
    known := FOUND;
    IF known AND found_session.ended THEN
        RETURN leasehold.say(era, 'ended');
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    ELSIF my_era <> era.nonce
        AND NOT EXISTS (SELECT 1 FROM leasehold.past_eras AS p WHERE p.nonce = my_era) THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF NOT known THEN
        RETURN leasehold.say(era, 'absent');
    ELSIF my_era <> era.nonce OR found_session.beat <> heard THEN
        RETURN leasehold.say(era, 'alive', '{}', ARRAY[found_session.beat]);
    END IF;
    UPDATE leasehold.sessions SET ended = true, changed = leasehold.here() WHERE id = them;
    PERFORM leasehold.tell(found_session.pool);
    RETURN leasehold.say(era, 'ended');
END $$;

-- Clears what a session with a tombstone held, a bounded number of leases at a time (`more` says that some are left), and
-- then forgets the tombstone. A frozen store keeps it: it is what refuses an ended session that would reassert.
CREATE FUNCTION leasehold.collect(them text, at_most bigint, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
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
