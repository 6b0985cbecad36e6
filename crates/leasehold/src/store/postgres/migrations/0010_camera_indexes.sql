-- Whoever looks for leases, events and runners of cameras by the columns that document 004 has indexes on finds them without reading
-- everything. Its unique index, one active lease of a camera, is the primary key of `leasehold.leases`. There is none on
-- `expires_at`: no index holds what a beat changes, so that a renewal rewrites one row and no more.

-- Leases that stand: by camera, by status, by runner.
CREATE INDEX cameras_leases_camera ON leasehold.leases ((resource::varchar(255)));
CREATE INDEX cameras_leases_status ON leasehold.leases ((
    (CASE WHEN pool LIKE '\_pending.%' THEN 'pending' WHEN revoked THEN 'revoked' ELSE 'active' END)::varchar(20)
));
CREATE INDEX cameras_leases_runner ON leasehold.sessions (((profile::jsonb ->> 'name')::varchar(255)));
CREATE INDEX cameras_leases_incarnation ON leasehold.sessions
    ((profile::jsonb -> 'labels' ->> 'leasehold.extra.incarnation'));

-- What happened, and leases that are over: by lease, by time, by camera, by runner.
CREATE INDEX cameras_events_lease ON leasehold.ledger ((
    CASE WHEN entry::jsonb ->> 'event' IN ('expired', 'revoked') THEN entry::jsonb ->> 'other' ELSE entry::jsonb ->> 'member' END
)) WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_lease_id ON leasehold.ledger ((leasehold_cameras.uuid_of(
    CASE WHEN entry::jsonb ->> 'event' IN ('expired', 'revoked') THEN entry::jsonb ->> 'other' ELSE entry::jsonb ->> 'member' END
))) WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_timestamp ON leasehold.ledger ((leasehold_cameras.at(entry::jsonb ->> 'wall_nanos')))
    WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_camera ON leasehold.ledger ((
    (CASE WHEN entry::jsonb ->> 'detail' LIKE '{%}' THEN (entry::jsonb ->> 'detail')::jsonb END ->> 'resource')::varchar(255)
) COLLATE "C") WHERE pool LIKE '%.cameras';
CREATE INDEX cameras_events_runner ON leasehold.ledger ((
    (CASE WHEN entry::jsonb ->> 'detail' LIKE '{%}' THEN (entry::jsonb ->> 'detail')::jsonb END ->> 'holder')::varchar(255)
)) WHERE pool LIKE '%.cameras';

-- Runners: by site, by status, by version.
CREATE INDEX cameras_runners_site ON leasehold.sessions (
    (substr(pool, 10)::varchar(255)),
    (((profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb ->> 'site_id')::varchar(255))
) WHERE pool LIKE '\_runners.%';
CREATE INDEX cameras_runners_status ON leasehold.sessions (
    (((profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb ->> 'status')::varchar(20))
) WHERE pool LIKE '\_runners.%';
CREATE INDEX cameras_runners_version ON leasehold.sessions (
    (((profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb ->> 'deployment_group')::varchar(255)),
    (((profile::jsonb -> 'labels' ->> 'leasehold.runner')::jsonb ->> 'deployment_version')::varchar(255))
) WHERE pool LIKE '\_runners.%';
