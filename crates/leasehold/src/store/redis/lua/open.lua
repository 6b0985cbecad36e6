-- Creates a session. One that is there, alive or ended, stays as it is.
-- Own arguments: 1 id, 2 pool, 3 TTL, 4 profile, 5 listing.
local id, pool, ttl = arg(1), arg(2), arg(3)
local found = session(id)
if found and found.ended then
    return answer('gone')
end
if era.frozen then
    return answer('frozen')
end
if not found then
    raise_ttl_max(ttl)
    redis.call('HSET', session_key(id), 'pool', pool, 'ttl', ttl, 'beat', string.rep('0', 20), 'ended', '0',
        'reasserted', '', 'profile', arg(4), 'listing', arg(5))
    redis.call('SADD', pools_key, pool)
    touch(pool, id)
    show_node(pool, id, ttl)
    tell(pool)
end
return answer('done')
