-- Whoever reads what changed finds it by an index, in sessions and marks as in leases: a control plane reads often, and has a session and a mark
-- for every lease. A beat pays for that with entries in the indexes of its session, so there is nothing in them that takes long to make.
DROP INDEX leasehold.sessions_pool;
CREATE INDEX sessions_changed ON leasehold.sessions (pool, changed);
CREATE INDEX marks_changed ON leasehold.marks (pool, changed);

ALTER TABLE leasehold.sessions ADD COLUMN name text, ADD COLUMN incarnation text;

CREATE FUNCTION leasehold.read_profile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    said jsonb := NEW.profile::jsonb;
BEGIN
    NEW.name := said ->> 'name';
    NEW.incarnation := said -> 'labels' ->> 'leasehold.extra.incarnation';
    RETURN NEW;
END $$;
CREATE TRIGGER read_profile BEFORE INSERT OR UPDATE OF profile ON leasehold.sessions
    FOR EACH ROW EXECUTE FUNCTION leasehold.read_profile();
UPDATE leasehold.sessions SET profile = profile;

DROP INDEX leasehold.cameras_leases_runner, leasehold.cameras_leases_incarnation;
CREATE INDEX cameras_leases_runner ON leasehold.sessions ((name::varchar(255)));
CREATE INDEX cameras_leases_incarnation ON leasehold.sessions (incarnation);

-- The views as before, by these columns.
CREATE OR REPLACE VIEW leasehold_cameras.held AS
SELECT s.id, l.pool, l.resource, l.token, l.revoked, s.ttl_ms, s.beat, s.beat_at,
       l.pool LIKE '\_pending.%' AS pending, s.profile::jsonb -> 'labels' AS labels, s.name, s.incarnation
FROM leasehold.leases AS l JOIN leasehold.sessions AS s ON s.id = l.holder
WHERE NOT s.ended AND (l.pool LIKE '%.cameras' OR l.pool LIKE '\_pending.%');

CREATE OR REPLACE VIEW leasehold_cameras.runners AS
SELECT s.name::varchar(255) AS runner_id,
       substr(s.pool, 10)::varchar(255) AS tenant_id,
       (r.said ->> 'site_id')::varchar(255) AS site_id,
       leasehold_cameras.at(r.said ->> 'registered_nanos') AS registered_at,
       leasehold_cameras.at(r.said ->> 'heard_nanos') AS last_heartbeat,
       (r.said ->> 'deployment_group')::varchar(255) AS deployment_group,
       (r.said ->> 'deployment_version')::varchar(255) AS deployment_version,
       (r.said ->> 'host')::varchar(255) AS host,
       (r.said ->> 'port')::integer AS port,
       (r.said ->> 'status')::varchar(20) AS status,
       (r.said ->> 'capacity')::integer AS capacity,
       (SELECT count(*)::integer FROM leasehold_cameras.held AS h
        WHERE NOT h.pending AND h.incarnation = r.said ->> 'incarnation') AS current_load,
       coalesce(r.said -> 'metrics', '{}') AS metrics
FROM leasehold.sessions AS s
CROSS JOIN LATERAL (SELECT (s.profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb AS said) AS r
WHERE s.pool LIKE '\_runners.%' AND NOT s.ended AND r.said IS NOT NULL;

CREATE OR REPLACE FUNCTION leasehold.read_marks(
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
          WHERE m.pool = of_pool AND m.changed >= since AND leasehold.is_new(m.changed, since, known)
          ORDER BY m.kind, m.subject) AS m;
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
