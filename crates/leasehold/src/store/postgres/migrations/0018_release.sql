-- A lease that is given back is looked up by its name, whatever the server believes about holders: by the index of those it goes through
-- all that one holds, for each of them again.
CREATE OR REPLACE FUNCTION leasehold.release(
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
        WHERE pool = met.my_pool AND resource = item.resource AND holder IS NOT DISTINCT FROM me AND token = item.token;
        IF FOUND THEN
            freed[item.place] := 1;
        END IF;
    END LOOP;
    IF 1 = ANY (freed) THEN
        PERFORM leasehold.tell(met.my_pool);
    END IF;
    RETURN leasehold.say(era, 'done', '{}', freed);
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
