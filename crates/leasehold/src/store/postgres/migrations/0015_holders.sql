-- Whether the holder of a lease has a tombstone is looked up for the one holder. Asked with EXISTS it may be planned as a join with
-- all sessions, or as a set of those with a tombstone, which is then made anew for every single lease that is taken.

-- Takes what is free, as before.
CREATE OR REPLACE FUNCTION leasehold.acquire(
    me text, my_era bigint, number bigint, confirmed bigint, wanted text[], floors bigint[], seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    token_max CONSTANT bigint := 9007199254740991;
    met record;
    item record;
    held record;
    new_token bigint;
    held_by text[] := array_fill(NULL::text, ARRAY[cardinality(wanted)]);
    tokens bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(wanted)]);
    granted boolean := false;
BEGIN
    SELECT * INTO met FROM leasehold.meet(era, me, my_era, confirmed);
    IF met.said <> 'done' THEN
        RETURN leasehold.say(era, met.said);
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    END IF;
    PERFORM leasehold.raise_beat(me, number);
    FOR item IN
        SELECT w.resource COLLATE "C" AS resource, greatest(w.floor, era.token_base) AS floor, w.place
        FROM unnest(wanted, floors) WITH ORDINALITY AS w (resource, floor, place) ORDER BY 1, 3
    LOOP
        IF item.floor >= token_max THEN
            RAISE EXCEPTION 'the tokens of % are used up: % is the last', item.resource, item.floor
                USING ERRCODE = 'LH001';
        END IF;
        -- A tombstone that this statement's snapshot does not show yet is found the next time.
        INSERT INTO leasehold.leases AS l (pool, resource, token, holder, ttl_ms, revoked, changed)
        VALUES (met.my_pool, item.resource, item.floor + 1, me, met.my_ttl_ms, false, leasehold.here())
        ON CONFLICT (pool, resource) DO UPDATE
        SET token = greatest(l.token + 1, excluded.token), holder = excluded.holder, ttl_ms = excluded.ttl_ms,
            revoked = false, offer_to = NULL, offer_load = NULL, changed = excluded.changed
        WHERE l.holder IS NULL
           OR (SELECT s.ended FROM leasehold.sessions AS s WHERE s.id = l.holder)
        RETURNING l.token INTO new_token;
        IF NOT FOUND THEN
            SELECT l.holder, l.token INTO held
            FROM leasehold.leases AS l WHERE l.pool = met.my_pool AND l.resource = item.resource;
            held_by[item.place] := held.holder;
            tokens[item.place] := held.token;
        ELSIF new_token > token_max THEN
            RAISE EXCEPTION 'the tokens of % are used up: % is the last', item.resource, new_token - 1
                USING ERRCODE = 'LH001';
        ELSE
            tokens[item.place] := new_token;
            granted := true;
        END IF;
    END LOOP;
    IF granted THEN
        PERFORM leasehold.tell(met.my_pool);
    END IF;
    RETURN leasehold.say(era, 'done', held_by, tokens);
END $$;

-- Opens a session and takes one resource with it, as before.
CREATE OR REPLACE FUNCTION leasehold.claim(
    me text, of_pool text, ttl bigint, my_profile text, my_listing text, name text, floor bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    token_max CONSTANT bigint := 9007199254740991;
    above bigint := greatest(floor, era.token_base);
    own leasehold.sessions;
    is_new boolean;
    held record;
    new_token bigint;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    SELECT * INTO own FROM leasehold.sessions AS s WHERE s.id = me FOR NO KEY UPDATE;
    IF own.ended THEN
        RETURN leasehold.say(era, 'gone');
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    END IF;
    -- Most claims in vain are found out here, and write nothing.
    SELECT l.holder, l.token INTO held FROM leasehold.leases AS l
    WHERE l.pool = coalesce(own.pool, of_pool) AND l.resource = name AND l.holder IS NOT NULL
      AND (SELECT s.ended FROM leasehold.sessions AS s WHERE s.id = l.holder) IS NOT TRUE;
    IF FOUND THEN
        RETURN leasehold.say(era, 'held', ARRAY[held.holder], ARRAY[held.token]);
    ELSIF above >= token_max THEN
        RAISE EXCEPTION 'the tokens of % are used up: % is the last', name, above USING ERRCODE = 'LH001';
    END IF;
    INSERT INTO leasehold.sessions AS s
        (id, pool, ttl_ms, beat, ended, reasserted, profile, listing, beat_at, changed)
    VALUES (me, of_pool, ttl, 1, false, NULL, my_profile, my_listing, clock_timestamp(), leasehold.here())
    ON CONFLICT (id) DO NOTHING;
    is_new := FOUND;
    SELECT * INTO own FROM leasehold.sessions AS s WHERE s.id = me FOR NO KEY UPDATE;
    IF NOT FOUND OR own.ended THEN
        RETURN leasehold.say(era, 'gone');
    END IF;
    -- A tombstone that this statement's snapshot does not show yet is found the next time.
    INSERT INTO leasehold.leases AS l (pool, resource, token, holder, ttl_ms, revoked, changed)
    VALUES (own.pool, name, above + 1, me, own.ttl_ms, false, leasehold.here())
    ON CONFLICT (pool, resource) DO UPDATE
    SET token = greatest(l.token + 1, excluded.token), holder = excluded.holder, ttl_ms = excluded.ttl_ms,
        revoked = false, offer_to = NULL, offer_load = NULL, changed = excluded.changed
    WHERE l.holder IS NULL
       OR (SELECT s.ended FROM leasehold.sessions AS s WHERE s.id = l.holder)
    RETURNING l.token INTO new_token;
    IF NOT FOUND THEN
        -- Somebody was faster. Nobody has seen the session.
        IF is_new THEN
            DELETE FROM leasehold.sessions AS s WHERE s.id = me;
        END IF;
        SELECT l.holder, l.token INTO held
        FROM leasehold.leases AS l WHERE l.pool = own.pool AND l.resource = name;
        RETURN leasehold.say(era, 'held', ARRAY[held.holder], ARRAY[held.token]);
    ELSIF new_token > token_max THEN
        RAISE EXCEPTION 'the tokens of % are used up: % is the last', name, new_token - 1
            USING ERRCODE = 'LH001';
    END IF;
    IF is_new THEN
        PERFORM leasehold.raise_ttl_max(ttl);
        era.ttl_max_ms := greatest(era.ttl_max_ms, ttl);
    ELSE
        PERFORM leasehold.raise_beat(me, 1);
    END IF;
    PERFORM leasehold.tell(own.pool);
    RETURN leasehold.say(era, 'done', ARRAY[NULL::text], ARRAY[new_token]);
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
