-- Refuses what is written under a term older than the newest seen, within the writer's own transaction.
--
-- A transaction calls leasehold_fence.check_term(resource, token) before it writes, or a table has the trigger and it is called for every row:
--
--   CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON scenes
--       FOR EACH ROW EXECUTE FUNCTION leasehold_fence.guard('scene_id', 'version');
--
-- The first argument is the column that names the resource, the second the one with the token. Without the second, and for DELETE, the token
-- is the setting leasehold.token of the transaction: SET LOCAL leasehold.token = '42'.
--
-- What it refuses fails with SQLSTATE LH001 (stale) or LH002 (no token). Who has passed keeps others' newer terms waiting until its transaction has
-- ended, because it could not be refused any more: limit it with idle_in_transaction_session_timeout.

CREATE SCHEMA IF NOT EXISTS leasehold_fence;

CREATE TABLE IF NOT EXISTS leasehold_fence.newest (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0)
);

CREATE OR REPLACE FUNCTION leasehold_fence.check_term(of_resource text, of_token bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    seen bigint;
BEGIN
    IF of_resource IS NULL OR of_token IS NULL OR of_token <= 0 THEN
        RAISE EXCEPTION 'a write without a term is refused (resource %, token %)', of_resource, of_token
            USING ERRCODE = 'LH002', HINT = 'Write under the token of the lease.';
    END IF;
    -- Writers of the same term share the row.
    PERFORM FROM leasehold_fence.newest AS n WHERE n.resource = of_resource AND n.token = of_token FOR SHARE;
    IF FOUND THEN
        RETURN;
    END IF;
    -- Waits for whoever writes under another term, and looks at what that one left.
    INSERT INTO leasehold_fence.newest AS n (resource, token) VALUES (of_resource, of_token)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE n.token <= EXCLUDED.token
        RETURNING n.token INTO seen;
    IF seen IS NULL THEN
        RAISE EXCEPTION 'a write to % under token % is refused: a newer term has been here', of_resource, of_token
            USING ERRCODE = 'LH001', HINT = 'The lease has gone to another. Stop working on this resource.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION leasehold_fence.guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line jsonb := CASE WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    said text := current_setting('leasehold.token', true);
BEGIN
    IF TG_NARGS > 1 AND TG_OP <> 'DELETE' THEN
        said := line ->> TG_ARGV[1];
    END IF;
    PERFORM leasehold_fence.check_term(line ->> TG_ARGV[0], nullif(said, '')::bigint);
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) ->> TG_ARGV[0] IS DISTINCT FROM line ->> TG_ARGV[0] THEN
        -- It is taken away from one resource and given to another.
        PERFORM leasehold_fence.check_term(to_jsonb(OLD) ->> TG_ARGV[0], nullif(said, '')::bigint);
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;
