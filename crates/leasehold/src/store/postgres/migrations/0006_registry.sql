-- What surrounds ownership: marks, declared resources, listings and the ledger. Nothing here decides a race for a resource,
-- so a frozen store takes it too.

-- Sets or removes a mark if its version is still the expected one; 0 means absent. Answers the version that it has now.
CREATE FUNCTION leasehold.set_mark(
    of_pool text, of_kind text, about text, new_value text, expected bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
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

-- Declares, changes or removes a resource if its version is still the expected one; 0 means absent.
CREATE FUNCTION leasehold.declare(
    of_pool text, name text, new_weight bigint, new_requires text, is_removed boolean, expected bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    now_version bigint;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF expected = 0 THEN
        INSERT INTO leasehold.resources (pool, resource, weight, requires, removed, version, changed)
        VALUES (of_pool, name, new_weight, new_requires, is_removed, 1, leasehold.here())
        ON CONFLICT (pool, resource) DO NOTHING RETURNING version INTO now_version;
    ELSE
        UPDATE leasehold.resources
        SET weight = new_weight, requires = new_requires, removed = is_removed, version = version + 1,
            changed = leasehold.here()
        WHERE pool = of_pool AND resource = name AND version = expected
        RETURNING version INTO now_version;
    END IF;
    IF now_version IS NULL THEN
        SELECT r.version INTO now_version FROM leasehold.resources AS r
        WHERE r.pool = of_pool AND r.resource = name;
        RETURN leasehold.say(era, 'conflict', '{}', ARRAY[coalesce(now_version, 0)]);
    END IF;
    PERFORM leasehold.tell(of_pool);
    RETURN leasehold.say(era, 'done', '{}', ARRAY[now_version]);
END $$;

-- Keeps a listing. The same id is the same content, so the first one stays.
CREATE FUNCTION leasehold.publish(of_pool text, listing_id text, new_content text, seen bigint[])
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    INSERT INTO leasehold.listings (pool, id, content) VALUES (of_pool, listing_id, new_content)
    ON CONFLICT (pool, id) DO NOTHING;
    RETURN leasehold.say(era, 'done');
END $$;

-- Forgets the listings that no living session of the pool publishes.
CREATE FUNCTION leasehold.collect_listings(of_pool text, seen bigint[]) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'off');
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    DELETE FROM leasehold.listings AS l
    WHERE l.pool = of_pool AND NOT EXISTS (
        SELECT 1 FROM leasehold.sessions AS s WHERE s.pool = of_pool AND NOT s.ended AND s.listing = l.id
    );
    RETURN leasehold.say(era, 'done');
END $$;

-- Appends lines to the ledger. A heartbeat takes the place of the one its member wrote before. The oldest lines of a ledger
-- that has grown past its bound are dropped, a few at a time. Not waited for on the disk.
CREATE FUNCTION leasehold.append(
    of_pool text, names text[], renewals text[], entries text[], keep bigint, step bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'off');
    item record;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    END IF;
    -- Invariant: one at a time until the commit, so that a reader never sees a line before one with a lower number.
    PERFORM pg_advisory_xact_lock(7810756276994729316);
    FOR item IN
        SELECT e.* FROM unnest(names, renewals, entries) WITH ORDINALITY AS e (resource, renews, entry, place)
        ORDER BY e.place
    LOOP
        IF item.renews IS NOT NULL THEN
            UPDATE leasehold.ledger SET entry = item.entry WHERE pool = of_pool AND renews = item.renews;
            CONTINUE WHEN FOUND;
        END IF;
        INSERT INTO leasehold.ledger (pool, resource, renews, entry)
        VALUES (of_pool, item.resource, item.renews, item.entry);
    END LOOP;
    DELETE FROM leasehold.ledger WHERE line IN (
        SELECT line FROM leasehold.ledger
        WHERE line <= (SELECT max(line) FROM leasehold.ledger) - keep ORDER BY line LIMIT step
    );
    RETURN leasehold.say(era, 'done');
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
