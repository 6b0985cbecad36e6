-- Resources get labels and a document. Builds that know the first six migrations go on beside newer ones: what they call is
-- still there, and what they write leaves the rest as it is.

ALTER TABLE leasehold.resources ADD COLUMN labels text, ADD COLUMN document text;

-- The same as the `declare` of builds that know of neither, with both. Null is none.
CREATE FUNCTION leasehold.declare(
    of_pool text, name text, new_weight bigint, new_requires text, new_labels text, new_document text,
    is_removed boolean, expected bigint, seen bigint[]
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = leasehold, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    era leasehold.era_now := leasehold.enter(seen, 'on');
    now_version bigint;
BEGIN
    IF era.forgot THEN
        RETURN leasehold.say(era, 'forgot');
    ELSIF expected = 0 THEN
        INSERT INTO leasehold.resources
            (pool, resource, weight, requires, labels, document, removed, version, changed)
        VALUES (of_pool, name, new_weight, new_requires, new_labels, new_document, is_removed, 1, leasehold.here())
        ON CONFLICT (pool, resource) DO NOTHING RETURNING version INTO now_version;
    ELSE
        UPDATE leasehold.resources
        SET weight = new_weight, requires = new_requires, labels = new_labels, document = new_document,
            removed = is_removed, version = version + 1, changed = leasehold.here()
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

-- The same as `read_resources`, with both.
CREATE FUNCTION leasehold.read_declared(
    of_pool text, since bigint, known text, seen bigint[],
    OUT era leasehold.era_now, OUT snapshot text,
    OUT names text[], OUT weights bigint[], OUT requirements text[], OUT labels text[], OUT documents text[],
    OUT removals boolean[], OUT versions bigint[]
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
BEGIN
    era := leasehold.look(seen);
    snapshot := pg_current_snapshot()::text;
    SELECT array_agg(r.resource), array_agg(r.weight), array_agg(r.requires), array_agg(r.labels),
           array_agg(r.document), array_agg(r.removed), array_agg(r.version)
    INTO names, weights, requirements, labels, documents, removals, versions
    FROM (SELECT * FROM leasehold.resources AS r
          WHERE r.pool = of_pool AND r.changed >= since AND leasehold.is_new(r.changed, since, known)
          ORDER BY r.resource) AS r;
END $$;

-- The newest migration that was applied, and the newest that the oldest build knows which can use this schema; asked by
-- whoever opens the store. A migration that such a build cannot live with replaces this function and the next.
CREATE FUNCTION leasehold.schema_range(OUT newest bigint, OUT oldest bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
    SELECT max(version), 6::bigint FROM leasehold.migrations
$$;

-- What builds that know six migrations ask for instead, and go on with this answer only.
CREATE OR REPLACE FUNCTION leasehold.schema_version() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = leasehold, pg_temp AS $$
    SELECT oldest FROM leasehold.schema_range()
$$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
