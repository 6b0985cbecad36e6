-- Every pool with a session, a lease or a declared resource.
SELECT pool FROM sessions UNION SELECT pool FROM leases UNION SELECT pool FROM resources ORDER BY pool;
