-- What changed is announced by the caller, after the call, in a transaction of its own that waits for no disk. One that notifies
-- holds a lock of the whole server until its commit is over: with `tell` in their own transactions, all calls that change
-- anything would wait for each other's disk.
--
-- Whoever sends 1 as the fourth number of what it remembers finds in `leasehold.told` what it has to announce. Builds that do not know
-- this yet send three numbers, and it is done for them.
CREATE OR REPLACE FUNCTION leasehold.tell(pool text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF coalesce(current_setting('leasehold.told', true), '') = '' THEN
        PERFORM pg_catalog.pg_notify('leasehold', pool);
    ELSE
        PERFORM set_config('leasehold.told', ':' || pool, true);
    END IF;
END $$;

ALTER FUNCTION leasehold.enter(bigint[], text, boolean) RENAME TO enter_era;

-- Begins a call that writes.
CREATE FUNCTION leasehold.enter(seen bigint[], waits text, alone boolean DEFAULT false)
RETURNS leasehold.era_now LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('leasehold.told', CASE WHEN seen[4] = 1 THEN 'nothing' ELSE '' END, true);
    RETURN leasehold.enter_era(seen, waits, alone);
END $$;

-- Who may use the store is said with GRANT, to nobody else.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC;
