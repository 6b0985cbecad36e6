-- What members read. Each answer is one snapshot: the era, the rows and the snapshot itself, of the same instant. Functions
-- that are STABLE look at the snapshot of the statement that calls them and at no other.
--
-- `since` is the lowest transaction that the caller's last snapshot had not seen the end of; `known` is that snapshot, if
-- the caller still has it: without it a reader gets more than is new to it, never less.

CREATE FUNCTION leasehold.is_new(changed bigint, since bigint, known text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT changed >= since
       AND (known IS NULL OR NOT pg_catalog.pg_visible_in_snapshot(changed::text::xid8, known::pg_snapshot))
$$;

CREATE FUNCTION leasehold.read_sessions(
    of_pool text, since bigint, known text, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text,
    OUT ids text[], OUT ttls bigint[], OUT beats bigint[], OUT ends boolean[], OUT profiles text[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(s.id), array_agg(s.ttl_ms), array_agg(s.beat), array_agg(s.ended), array_agg(s.profile)
    INTO ids, ttls, beats, ends, profiles
    FROM (SELECT * FROM leasehold.sessions AS s
          WHERE s.pool = of_pool AND s.changed >= since AND leasehold.is_new(s.changed, since, known)
          ORDER BY s.id) AS s;
END $$;

CREATE FUNCTION leasehold.read_leases(
    of_pool text, since bigint, known text, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text,
    OUT names text[], OUT tokens bigint[], OUT holders text[], OUT ttls bigint[], OUT revocations boolean[],
    OUT offers text[], OUT loads bigint[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(l.resource), array_agg(l.token), array_agg(l.holder), array_agg(l.ttl_ms),
           array_agg(l.revoked), array_agg(l.offer_to), array_agg(l.offer_load)
    INTO names, tokens, holders, ttls, revocations, offers, loads
    FROM (SELECT * FROM leasehold.leases AS l
          WHERE l.pool = of_pool AND l.changed >= since AND leasehold.is_new(l.changed, since, known)
          ORDER BY l.resource) AS l;
END $$;

CREATE FUNCTION leasehold.read_marks(
    of_pool text, since bigint, known text, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text,
    OUT kinds text[], OUT subjects text[], OUT contents text[], OUT versions bigint[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(m.kind), array_agg(m.subject), array_agg(m.value), array_agg(m.version)
    INTO kinds, subjects, contents, versions
    FROM (SELECT * FROM leasehold.marks AS m
          WHERE m.pool = of_pool AND leasehold.is_new(m.changed, since, known)
          ORDER BY m.kind, m.subject) AS m;
END $$;

CREATE FUNCTION leasehold.read_resources(
    of_pool text, since bigint, known text, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text,
    OUT names text[], OUT weights bigint[], OUT requirements text[], OUT removals boolean[], OUT versions bigint[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(r.resource), array_agg(r.weight), array_agg(r.requires), array_agg(r.removed),
           array_agg(r.version)
    INTO names, weights, requirements, removals, versions
    FROM (SELECT * FROM leasehold.resources AS r
          WHERE r.pool = of_pool AND r.changed >= since AND leasehold.is_new(r.changed, since, known)
          ORDER BY r.resource) AS r;
END $$;

-- Every pool with a session, a lease or a declared resource.
CREATE FUNCTION leasehold.read_pools(
    seen bigint[], OUT era leasehold.era_now, OUT snapshot text, OUT names text[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(p.pool) INTO names
    FROM (SELECT pool FROM leasehold.sessions UNION SELECT pool FROM leasehold.leases
          UNION SELECT pool FROM leasehold.resources ORDER BY pool) AS p;
END $$;

CREATE FUNCTION leasehold.read_listing(
    of_pool text, listing_id text, seen bigint[], OUT era leasehold.era_now, OUT snapshot text, OUT names text[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(l.content) INTO names FROM leasehold.listings AS l WHERE l.pool = of_pool AND l.id = listing_id;
END $$;

-- The lines of a pool, or those about one resource, after a line, oldest first.
CREATE FUNCTION leasehold.read_ledger(
    of_pool text, about text, after_line bigint, at_most bigint, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text, OUT numbers bigint[], OUT entries text[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    IF about IS NULL THEN
        SELECT array_agg(l.line), array_agg(l.entry) INTO numbers, entries
        FROM (SELECT line, entry FROM leasehold.ledger
              WHERE pool = of_pool AND line > after_line ORDER BY line LIMIT at_most) AS l;
    ELSE
        SELECT array_agg(l.line), array_agg(l.entry) INTO numbers, entries
        FROM (SELECT line, entry FROM leasehold.ledger
              WHERE pool = of_pool AND resource = about AND line > after_line ORDER BY line LIMIT at_most) AS l;
    END IF;
END $$;

-- For people and programs that know the table of this name: who tracks which scene. A holder with a tombstone holds
-- nothing. `expires_at` is for display: no clock of the database decides anything.
CREATE VIEW leasehold.scene_leases AS
SELECT l.resource AS scene_id,
       CASE WHEN s.ended THEN NULL ELSE l.holder END AS holder_id,
       CASE WHEN s.ended THEN NULL
            ELSE s.beat_at + least(l.ttl_ms, 31536000000) * interval '1 millisecond' END AS expires_at,
       l.token AS version
FROM leasehold.leases AS l LEFT JOIN leasehold.sessions AS s ON s.id = l.holder
WHERE l.pool = 'scenes';
