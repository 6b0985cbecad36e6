-- What document 004 calls `leases`, `lease_events` and `runners`, to look at: views of what is kept anyway, in a schema of their
-- own. That a camera has one active lease is decided where all leases are, by the primary key of `leasehold.leases`; nothing
-- is granted by typing a row. The views go with the schema `leasehold` when that is dropped; what else is here may be there still.
CREATE SCHEMA IF NOT EXISTS leasehold_cameras;

-- A time that was written down in nanoseconds since 1970.
CREATE OR REPLACE FUNCTION leasehold_cameras.at(nanos text) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT to_timestamp(nanos::numeric / 1000000000)
$$;

-- A UUID, or nothing: leases that were acquired otherwise have other ids.
CREATE OR REPLACE FUNCTION leasehold_cameras.uuid_of(id text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN id::uuid END
$$;

-- Sessions that hold a camera, or have one reserved.
CREATE VIEW leasehold_cameras.held AS
SELECT s.id, l.pool, l.resource, l.token, l.revoked, s.ttl_ms, s.beat, s.beat_at,
       l.pool LIKE '\_pending.%' AS pending, s.profile::jsonb -> 'labels' AS labels, s.profile::jsonb ->> 'name' AS name
FROM leasehold.leases AS l JOIN leasehold.sessions AS s ON s.id = l.holder
WHERE NOT s.ended AND (l.pool LIKE '%.cameras' OR l.pool LIKE '\_pending.%');

-- Rows of the ledger that are about leases of cameras.
CREATE VIEW leasehold_cameras.rows AS
SELECT g.line, g.pool, e.entry, e.detail,
       CASE e.entry ->> 'event'
           WHEN 'acquired' THEN 'lease_acquired' WHEN 'taken_over' THEN 'lease_acquired'
           WHEN 'extended' THEN 'lease_renewed' WHEN 'expired' THEN 'lease_expired'
           WHEN 'revoked' THEN 'lease_revoked' WHEN 'released' THEN 'lease_released'
           WHEN 'lost' THEN 'lease_stolen' END AS event_type,
       CASE WHEN e.entry ->> 'event' IN ('expired', 'revoked') THEN e.entry ->> 'other' ELSE e.entry ->> 'member' END AS lease
FROM leasehold.ledger AS g
CROSS JOIN LATERAL (SELECT g.entry::jsonb AS entry) AS j
CROSS JOIN LATERAL (
    SELECT j.entry, CASE WHEN j.entry ->> 'detail' LIKE '{%}' THEN (j.entry ->> 'detail')::jsonb END AS detail
) AS e
WHERE g.pool LIKE '%.cameras' AND e.detail ? 'shard'
  AND (e.entry ->> 'event' <> 'lost' OR e.entry ->> 'reason' = 'superseded');

-- Every lease that stands, and those that are over as far as the ledger goes back.
CREATE VIEW leasehold_cameras.leases AS
SELECT leasehold_cameras.uuid_of(CASE WHEN h.pending THEN substr(h.id, 9) ELSE h.id END) AS lease_id,
       h.resource::varchar(255) AS camera_uuid,
       h.name::varchar(255) AS runner_id,
       (h.labels ->> 'leasehold.extra.shard')::varchar(255) AS shard_id,
       (h.labels ->> 'leasehold.extra.tenant')::varchar(255) AS tenant_id,
       (h.labels ->> 'leasehold.extra.site')::varchar(255) AS site_id,
       leasehold_cameras.at(h.labels ->> 'leasehold.extra.acquired') AS acquired_at,
       h.beat_at + (h.labels ->> 'leasehold.ttl_ms')::bigint * interval '1 millisecond' AS expires_at,
       CASE WHEN h.beat > 1 THEN h.beat_at END AS renewed_at,
       coalesce(leasehold_cameras.at(m.said ->> 'at_nanos'), leasehold_cameras.at(h.labels ->> 'leasehold.extra.acquired')) AS last_heartbeat,
       (CASE WHEN h.pending THEN 'pending' WHEN h.revoked THEN 'revoked' ELSE 'active' END)::varchar(20) AS status,
       coalesce(m.said -> 'stats', '{}') AS processing_stats,
       (h.labels ->> 'leasehold.extra.config_version')::varchar(64) AS config_version,
       (h.labels ->> 'leasehold.extra.zone_version')::varchar(64) AS zone_version,
       h.token AS fencing_token
FROM leasehold_cameras.held AS h
LEFT JOIN LATERAL (
    SELECT value::jsonb AS said FROM leasehold.marks AS k
    WHERE k.pool = h.pool AND k.kind = 'heartbeat' AND k.subject = h.resource AND k.value::jsonb ->> 'lease_id' = h.id
) AS m ON true
WHERE h.labels ? 'leasehold.extra.shard'
UNION ALL
SELECT leasehold_cameras.uuid_of(g.lease), (g.detail ->> 'resource')::varchar(255), (g.detail ->> 'holder')::varchar(255),
       (g.detail ->> 'shard')::varchar(255), (g.detail ->> 'tenant')::varchar(255), (g.detail ->> 'site')::varchar(255),
       leasehold_cameras.at(g.entry ->> 'wall_nanos'),
       coalesce(o.ended_at, leasehold_cameras.at(g.entry ->> 'wall_nanos')), NULL, leasehold_cameras.at(g.entry ->> 'wall_nanos'),
       (CASE WHEN o.revoked THEN 'revoked' WHEN o.released THEN 'released' ELSE 'expired' END)::varchar(20), '{}',
       (g.detail ->> 'config_version')::varchar(64), (g.detail ->> 'zone_version')::varchar(64), (g.entry ->> 'token')::bigint
FROM leasehold_cameras.rows AS g
LEFT JOIN LATERAL (
    SELECT bool_or(n.event_type = 'lease_revoked') AS revoked, bool_or(n.event_type = 'lease_released') AS released,
           max(leasehold_cameras.at(n.entry ->> 'wall_nanos')) AS ended_at
    FROM leasehold_cameras.rows AS n WHERE n.pool = g.pool AND n.lease = g.lease AND n.line > g.line
) AS o ON true
WHERE g.event_type = 'lease_acquired' AND NOT EXISTS (SELECT 1 FROM leasehold_cameras.held AS h WHERE h.id = g.lease);

-- What happened to leases. Rows stay when their lease is forgotten, and go when the ledger drops them.
CREATE VIEW leasehold_cameras.lease_events AS
SELECT md5(g.pool || ':' || g.line)::uuid AS event_id,
       leasehold_cameras.uuid_of(g.lease) AS lease_id,
       g.event_type::varchar(50) AS event_type,
       leasehold_cameras.at(g.entry ->> 'wall_nanos') AS "timestamp",
       g.detail || jsonb_strip_nulls(jsonb_build_object(
           'fencing_token', g.entry -> 'token', 'reason', g.entry -> 'reason', 'row', g.line)) AS details,
       (g.detail ->> 'resource')::varchar(255) AS camera_uuid,
       (g.detail ->> 'holder')::varchar(255) AS runner_id,
       (g.detail ->> 'shard')::varchar(255) AS shard_id
FROM leasehold_cameras.rows AS g WHERE g.event_type IS NOT NULL;

-- The runners that are heard of.
CREATE VIEW leasehold_cameras.runners AS
SELECT (s.profile::jsonb ->> 'name')::varchar(255) AS runner_id,
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
        WHERE NOT h.pending AND h.labels ->> 'leasehold.extra.incarnation' = r.said ->> 'incarnation') AS current_load,
       coalesce(r.said -> 'metrics', '{}') AS metrics
FROM leasehold.sessions AS s
CROSS JOIN LATERAL (SELECT (s.profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb AS said) AS r
WHERE s.pool LIKE '\_runners.%' AND NOT s.ended AND r.said IS NOT NULL;

-- Refuses what is typed into a view. A second active lease of a camera is refused as the unique index of document 004 would.
CREATE OR REPLACE FUNCTION leasehold_cameras.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'leases' AND TG_OP <> 'DELETE' AND NEW.status = 'active' AND EXISTS (
        SELECT 1 FROM leasehold_cameras.leases AS l
        WHERE l.camera_uuid = NEW.camera_uuid AND l.tenant_id = NEW.tenant_id AND l.status = 'active'
    ) THEN
        RAISE EXCEPTION 'camera % has an active lease already', NEW.camera_uuid USING ERRCODE = 'unique_violation';
    END IF;
    RAISE EXCEPTION 'leasehold_cameras.% is to look at', TG_TABLE_NAME
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Ask the control plane: it is the one that grants leases.';
END $$;
CREATE TRIGGER refuse INSTEAD OF INSERT OR UPDATE OR DELETE ON leasehold_cameras.leases
    FOR EACH ROW EXECUTE FUNCTION leasehold_cameras.refuse();
CREATE TRIGGER refuse INSTEAD OF INSERT OR UPDATE OR DELETE ON leasehold_cameras.lease_events
    FOR EACH ROW EXECUTE FUNCTION leasehold_cameras.refuse();
CREATE TRIGGER refuse INSTEAD OF INSERT OR UPDATE OR DELETE ON leasehold_cameras.runners
    FOR EACH ROW EXECUTE FUNCTION leasehold_cameras.refuse();
