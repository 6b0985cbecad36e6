-- Decides who holds what. Leases are locked in the order of their names, after the session's own row. Only positive, final
-- facts free a lease: its holder let go, or there is a tombstone of its holder.

-- Takes what is free. Answers one name and number an item: no name and the new token for what was granted, the holder and
-- its token for what is held.
CREATE FUNCTION leasehold.acquire(
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
           OR EXISTS (SELECT 1 FROM leasehold.sessions AS s WHERE s.id = l.holder AND s.ended)
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

-- Frees exactly the terms that this session has. Answers 1 for each that was freed and 0 for each that it did not hold.
CREATE FUNCTION leasehold.release(
    me text, my_era bigint, number bigint, confirmed bigint,
    names text[], tokens bigint[], offers text[], loads bigint[], seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    met record;
    item record;
    freed bigint[] := array_fill(0::bigint, ARRAY[cardinality(names)]);
BEGIN
    SELECT * INTO met FROM leasehold.meet(era, me, my_era, confirmed);
    IF met.said <> 'done' THEN
        RETURN leasehold.say(era, met.said);
    END IF;
    PERFORM leasehold.raise_beat(me, number);
    FOR item IN
        SELECT t.resource COLLATE "C" AS resource, t.token, t.offer_to, t.offer_load, t.place
        FROM unnest(names, tokens, offers, loads) WITH ORDINALITY AS t (resource, token, offer_to, offer_load, place)
        ORDER BY 1, 5
    LOOP
        UPDATE leasehold.leases
        SET holder = NULL, revoked = false, offer_to = item.offer_to, offer_load = item.offer_load,
            changed = leasehold.here()
        WHERE pool = met.my_pool AND resource = item.resource AND holder = me AND token = item.token;
        IF FOUND THEN
            freed[item.place] := 1;
        END IF;
    END LOOP;
    IF 1 = ANY (freed) THEN
        PERFORM leasehold.tell(met.my_pool);
    END IF;
    RETURN leasehold.say(era, 'done', '{}', freed);
END $$;

-- Marks a term as revoked if somebody without a tombstone holds it.
CREATE FUNCTION leasehold.revoke(of_pool text, name text, its_token bigint, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    END IF;
    UPDATE leasehold.leases AS l SET revoked = true, changed = leasehold.here()
    WHERE l.pool = of_pool AND l.resource = name AND l.token = its_token AND l.holder IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM leasehold.sessions AS s WHERE s.id = l.holder AND s.ended);
    IF NOT FOUND THEN
        RETURN leasehold.say(era, 'not-held');
    END IF;
    PERFORM leasehold.tell(of_pool);
    RETURN leasehold.say(era, 'done');
END $$;

-- Frees another's term: one that was revoked or, if its holder is named, one whose holder's session is absent: neither
-- alive nor a tombstone.
CREATE FUNCTION leasehold.free(
    of_pool text, name text, its_token bigint, orphan_of text, my_era bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF era.frozen THEN
        RETURN leasehold.say(era, 'frozen');
    ELSIF my_era <> era.nonce THEN
        IF EXISTS (SELECT 1 FROM leasehold.past_eras AS p WHERE p.nonce = my_era) THEN
            RETURN leasehold.say(era, 'changed');
        END IF;
        RETURN leasehold.say(era, 'forgot');
    END IF;
    -- Invariant: locked first, then judged by what is true at that moment.
    PERFORM 1 FROM leasehold.leases AS l WHERE l.pool = of_pool AND l.resource = name FOR UPDATE;
    UPDATE leasehold.leases AS l
    SET holder = NULL, revoked = false, offer_to = NULL, offer_load = NULL, changed = leasehold.here()
    WHERE l.pool = of_pool AND l.resource = name AND l.token = its_token
      AND CASE WHEN orphan_of IS NULL THEN l.holder IS NOT NULL AND l.revoked
          ELSE l.holder = orphan_of
               AND NOT EXISTS (SELECT 1 FROM leasehold.sessions AS s WHERE s.id = orphan_of)
          END;
    IF NOT FOUND THEN
        RETURN leasehold.say(era, 'changed');
    END IF;
    PERFORM leasehold.tell(of_pool);
    RETURN leasehold.say(era, 'done');
END $$;

-- A session of which the store may have forgotten anything says that it is there and what it holds. A tombstone stays one.
-- A term is kept unless the store has a newer token, or knows that this very term is free or somebody else's; a revocation
-- that the store remembers stays with its term. Answers 1 for each term that was kept.
CREATE FUNCTION leasehold.reassert(
    me text, of_pool text, ttl bigint, my_profile text, my_listing text, my_era bigint, number bigint,
    names text[], tokens bigint[], seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    own leasehold.sessions;
    item record;
    kept bigint[] := array_fill(0::bigint, ARRAY[cardinality(names)]);
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    SELECT * INTO own FROM leasehold.sessions AS s WHERE s.id = me FOR NO KEY UPDATE;
    IF own.ended OR NOT era.frozen THEN
        RETURN leasehold.say(era, 'gone');
    ELSIF my_era <> era.nonce THEN
        RETURN leasehold.say(era, 'frozen');
    END IF;
    INSERT INTO leasehold.sessions AS s
        (id, pool, ttl_ms, beat, ended, reasserted, profile, listing, beat_at, changed)
    VALUES (me, of_pool, ttl, number, false, era.nonce, my_profile, my_listing, clock_timestamp(), leasehold.here())
    ON CONFLICT (id) DO UPDATE
    SET pool = excluded.pool, ttl_ms = excluded.ttl_ms, beat = greatest(s.beat, excluded.beat),
        reasserted = excluded.reasserted, profile = excluded.profile, listing = excluded.listing,
        beat_at = excluded.beat_at, changed = excluded.changed
    WHERE NOT s.ended;
    IF NOT FOUND THEN
        RETURN leasehold.say(era, 'gone');
    END IF;
    PERFORM leasehold.raise_ttl_max(ttl);
    era.ttl_max_ms := greatest(era.ttl_max_ms, ttl);
    FOR item IN
        SELECT t.resource COLLATE "C" AS resource, t.token, t.place
        FROM unnest(names, tokens) WITH ORDINALITY AS t (resource, token, place) ORDER BY 1, 3
    LOOP
        INSERT INTO leasehold.leases AS l (pool, resource, token, holder, ttl_ms, revoked, changed)
        VALUES (of_pool, item.resource, item.token, me, ttl, false, leasehold.here())
        ON CONFLICT (pool, resource) DO UPDATE
        SET token = excluded.token, holder = excluded.holder, ttl_ms = excluded.ttl_ms,
            revoked = (l.token = excluded.token AND l.revoked),
            offer_to = NULL, offer_load = NULL, changed = excluded.changed
        WHERE l.token < excluded.token OR (l.token = excluded.token AND l.holder = excluded.holder);
        IF FOUND THEN
            kept[item.place] := 1;
        END IF;
    END LOOP;
    PERFORM leasehold.tell(of_pool);
    RETURN leasehold.say(era, 'done', '{}', kept);
END $$;
