-- The settings that decide what a crash or a failover may lose. A base backup under way is not a standby. Who may not see
-- a standby's state sees null.
SELECT current_setting('server_version') AS version,
       current_setting('fsync')::boolean AS fsync,
       current_setting('full_page_writes')::boolean AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       count(pid) AS standbys,
       count(pid) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS synchronous,
       count(pid) FILTER (WHERE sync_state IS NULL) AS unseen
FROM pg_catalog.pg_stat_replication WHERE application_name IS DISTINCT FROM 'pg_basebackup';
