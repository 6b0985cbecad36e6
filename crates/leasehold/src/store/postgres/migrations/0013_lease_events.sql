-- What is looked up of the ledger's lines about cameras stands in columns of its own. Each line is taken apart once, when it is written;
-- with indexes on expressions it was once for every index, and that was most of what a line cost.
ALTER TABLE leasehold.ledger
    ADD COLUMN lease text, ADD COLUMN lease_id uuid, ADD COLUMN happened_at timestamptz,
    ADD COLUMN camera varchar(255), ADD COLUMN runner varchar(255);

-- What is no JSON that can be taken apart is nothing here: whoever writes to such a pool may say what it likes, and no line is refused for it.
CREATE OR REPLACE FUNCTION leasehold_cameras.json_of(said text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN said LIKE '{%}' THEN said::jsonb END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE FUNCTION leasehold.take_apart() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    said jsonb := leasehold_cameras.json_of(NEW.entry);
    detail jsonb := leasehold_cameras.json_of(said ->> 'detail');
BEGIN
    NEW.lease := CASE WHEN said ->> 'event' IN ('expired', 'revoked') THEN said ->> 'other' ELSE said ->> 'member' END;
    NEW.lease_id := leasehold_cameras.uuid_of(NEW.lease);
    NEW.happened_at := leasehold_cameras.at(said ->> 'wall_nanos');
    -- What is too long is cut off, as in the views: no line is refused for it.
    NEW.camera := (detail ->> 'resource')::varchar(255);
    NEW.runner := (detail ->> 'holder')::varchar(255);
    RETURN NEW;
END $$;
CREATE TRIGGER take_apart BEFORE INSERT OR UPDATE OF entry ON leasehold.ledger
    FOR EACH ROW WHEN (NEW.pool LIKE '%.cameras') EXECUTE FUNCTION leasehold.take_apart();
UPDATE leasehold.ledger SET entry = entry WHERE pool LIKE '%.cameras';

DROP INDEX leasehold.cameras_events_lease, leasehold.cameras_events_lease_id, leasehold.cameras_events_timestamp,
    leasehold.cameras_events_camera, leasehold.cameras_events_runner;
CREATE INDEX cameras_events_lease ON leasehold.ledger (lease) WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_lease_id ON leasehold.ledger (lease_id) WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_timestamp ON leasehold.ledger (happened_at) WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_camera ON leasehold.ledger (camera COLLATE "C") WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_runner ON leasehold.ledger (runner) WHERE pool LIKE '%.cameras';

-- With the camera, because almost all leases have the same status: whoever wrote one more of these looked for its place among all of them.
DROP INDEX leasehold.cameras_leases_status;
CREATE INDEX cameras_leases_status ON leasehold.leases ((
    (CASE WHEN pool LIKE '\_pending.%' THEN 'pending' WHEN revoked THEN 'revoked' ELSE 'active' END)::varchar(20)
), resource);

-- The views as before, by these columns.
CREATE OR REPLACE VIEW leasehold_cameras.rows AS
SELECT g.line, g.pool, e.entry, e.detail,
       CASE e.entry ->> 'event'
           WHEN 'acquired' THEN 'lease_acquired' WHEN 'taken_over' THEN 'lease_acquired'
           WHEN 'extended' THEN 'lease_renewed' WHEN 'expired' THEN 'lease_expired'
           WHEN 'revoked' THEN 'lease_revoked' WHEN 'released' THEN 'lease_released'
           WHEN 'lost' THEN 'lease_stolen' END AS event_type,
       g.lease, g.lease_id, g.happened_at, g.camera, g.runner
FROM leasehold.ledger AS g
CROSS JOIN LATERAL (SELECT leasehold_cameras.json_of(g.entry) AS entry) AS j
CROSS JOIN LATERAL (SELECT j.entry, leasehold_cameras.json_of(j.entry ->> 'detail') AS detail) AS e
WHERE g.pool LIKE '%.cameras' AND e.detail ? 'shard'
  AND (e.entry ->> 'event' <> 'lost' OR e.entry ->> 'reason' = 'superseded');

CREATE OR REPLACE VIEW leasehold_cameras.leases AS
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
SELECT g.lease_id, g.camera, g.runner,
       (g.detail ->> 'shard')::varchar(255), (g.detail ->> 'tenant')::varchar(255), (g.detail ->> 'site')::varchar(255),
       g.happened_at, coalesce(o.ended_at, g.happened_at), NULL, g.happened_at,
       (CASE WHEN o.revoked THEN 'revoked' WHEN o.released THEN 'released' ELSE 'expired' END)::varchar(20), '{}',
       (g.detail ->> 'config_version')::varchar(64), (g.detail ->> 'zone_version')::varchar(64), (g.entry ->> 'token')::bigint
FROM leasehold_cameras.rows AS g
LEFT JOIN LATERAL (
    SELECT bool_or(n.event_type = 'lease_revoked') AS revoked, bool_or(n.event_type = 'lease_released') AS released,
           max(n.happened_at) AS ended_at
    FROM leasehold_cameras.rows AS n WHERE n.pool = g.pool AND n.lease = g.lease AND n.line > g.line
) AS o ON true
WHERE g.event_type = 'lease_acquired' AND NOT EXISTS (SELECT 1 FROM leasehold_cameras.held AS h WHERE h.id = g.lease);

CREATE OR REPLACE VIEW leasehold_cameras.lease_events AS
SELECT md5(g.pool || ':' || g.line)::uuid AS event_id,
       g.lease_id,
       g.event_type::varchar(50) AS event_type,
       g.happened_at AS "timestamp",
       g.detail || jsonb_strip_nulls(jsonb_build_object(
           'fencing_token', g.entry -> 'token', 'reason', g.entry -> 'reason', 'row', g.line)) AS details,
       g.camera AS camera_uuid,
       g.runner AS runner_id,
       (g.detail ->> 'shard')::varchar(255) AS shard_id
FROM leasehold_cameras.rows AS g WHERE g.event_type IS NOT NULL;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
