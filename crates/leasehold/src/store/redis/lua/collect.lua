-- Clears what a session with a tombstone held, a part with each call, and forgets the tombstone with the last. A frozen
-- store keeps it: it is what refuses an ended session that would reassert. Own arguments: 1 id, 2 how many.
local found = session(arg(1))
if era.frozen or not found or not found.ended then
    return answer('done')
end
local id, pool = found.id, found.pool
local held = redis.call('SRANDMEMBER', held_key(pool, id), arg(2))
for _, resource in ipairs(held) do
    if redis.call('HGET', lease_key(pool, resource), 'holder') == id then
        local offer = redis.call('HMGET', lease_key(pool, resource), 'offer_to', 'offer_load')
        clear(pool, resource, id, offer[1], offer[2])
    else
        redis.call('SREM', held_key(pool, id), resource)
    end
end
tell(pool)
if redis.call('SCARD', held_key(pool, id)) > 0 then
    return answer('more')
end
redis.call('DEL', session_key(id), held_key(pool, id), revoked_key(pool, id))
redis.call('ZREM', sessions_key(pool), id)
if pool == mirrored_pool then
    redis.call('DEL', node_key(id))
end
return answer('done')
