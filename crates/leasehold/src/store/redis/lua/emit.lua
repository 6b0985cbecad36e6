-- Tells something under a term, if the term stands and its holder has not ended. In a frozen store nothing stands that was
-- not said again.
-- Own arguments: 1 pool, 2 resource, 3 token, 4 holder, 5 kind, 6 channel or key, 7 how many a stream keeps, 8 what.
local pool, resource, holder = arg(1), arg(2), arg(4)
if holder_of(pool, resource, arg(3)) ~= holder or ended(holder) or foreigner(pool, resource, holder) then
    return 'stale'
end
if frozen and redis.call('HGET', session_key(holder), 'reasserted') ~= nonce then
    return 'stale'
end
if arg(5) == 'stream' then
    redis.call('XADD', arg(6), 'MAXLEN', '~', arg(7), '*', 'id', resource, 'token', arg(3), 'instance', holder,
        'result', arg(8))
else
    redis.call('PUBLISH', arg(6), arg(8))
end
return 'told'
