-- Takes what is free, as before. A batch of which the caller knows no token is thought to be fresh, and is written as a whole, by plain rows. The
-- primary key judges that: if anything of it was ever given, or is asked for twice, nothing of it was written, and all of it is taken as before:
-- first what nobody was ever given, then the rest one by one.
--
-- No two wait for each other. All go in the order of names, whoever was refused as a whole holds no lease when it begins again, and whoever is at
-- the rest waits for nobody who is not, as all that it wants is there by then.
CREATE OR REPLACE FUNCTION leasehold.acquire(
    me text, my_era bigint, number bigint, confirmed bigint, wanted text[], floors bigint[], seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    token_max CONSTANT bigint := 9007199254740991;
    now_here bigint;
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
    now_here := leasehold.here();
    IF cardinality(wanted) > 1 AND 0 = ALL (floors) AND era.token_base < token_max THEN
        BEGIN
            INSERT INTO leasehold.leases (pool, resource, token, holder, ttl_ms, revoked, changed)
            SELECT met.my_pool, w.resource, era.token_base + 1, me, met.my_ttl_ms, false, now_here
            FROM unnest(wanted) AS w (resource) ORDER BY w.resource COLLATE "C";
            PERFORM leasehold.tell(met.my_pool);
            RETURN leasehold.say(era, 'done', held_by, array_fill(era.token_base + 1, ARRAY[cardinality(wanted)]));
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
    SELECT w.resource, greatest(w.floor, era.token_base) AS floor INTO item
    FROM unnest(wanted, floors) AS w (resource, floor) WHERE greatest(w.floor, era.token_base) >= token_max LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the tokens of % are used up: % is the last', item.resource, item.floor
            USING ERRCODE = 'LH001';
    END IF;
    IF cardinality(wanted) > 1 THEN
        WITH asked AS MATERIALIZED (
            SELECT w.resource COLLATE "C" AS resource, greatest(w.floor, era.token_base) AS floor, w.place,
                   row_number() OVER (PARTITION BY w.resource COLLATE "C" ORDER BY w.place) = 1 AS is_first
            FROM unnest(wanted, floors) WITH ORDINALITY AS w (resource, floor, place)
        ), given AS (
            INSERT INTO leasehold.leases AS l (pool, resource, token, holder, ttl_ms, revoked, changed)
            SELECT met.my_pool, a.resource, a.floor + 1, me, met.my_ttl_ms, false, now_here
            FROM asked AS a WHERE a.is_first ORDER BY a.resource
            ON CONFLICT (pool, resource) DO NOTHING
            RETURNING l.resource, l.token
        )
        SELECT array_agg(g.token ORDER BY a.place), count(g.token) > 0 INTO tokens, granted
        FROM asked AS a LEFT JOIN given AS g ON g.resource = a.resource AND a.is_first;
    END IF;
    FOR item IN
        SELECT w.resource COLLATE "C" AS resource, greatest(w.floor, era.token_base) AS floor, w.place
        FROM unnest(wanted, floors, tokens) WITH ORDINALITY AS w (resource, floor, token, place)
        WHERE w.token IS NULL ORDER BY 1, 3
    LOOP
        -- A tombstone that this statement's snapshot does not show yet is found the next time.
        INSERT INTO leasehold.leases AS l (pool, resource, token, holder, ttl_ms, revoked, changed)
        VALUES (met.my_pool, item.resource, item.floor + 1, me, met.my_ttl_ms, false, now_here)
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

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
