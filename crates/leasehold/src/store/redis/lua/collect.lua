-- Clears what a session with a tombstone held, a part with each call, and forgets the tombstone with the last. A frozen
-- store keeps it: it is what refuses an ended session that would reassert. Own arguments: 1 id, 2 how many.
local found = session(arg(1))
if era.frozen or not found or not found.ended then
    return answer('done')
end
local id, pool = found.id, found.pool
local over, strange = {}, {}
for _, resource in ipairs(redis.call('SRANDMEMBER', held_key(pool, id), arg(2))) do
    local record = redis.call('HMGET', lease_key(pool, resource), 'holder', 'offer_to', 'offer_load')
    if record[1] == id then
        over[#over + 1] = { resource, record[2], record[3] }
    else
        strange[#strange + 1] = resource
    end
end
clear(pool, id, over)
if #strange > 0 then
    redis.call('SREM', held_key(pool, id), unpack(strange))
end
tell(pool)
if redis.call('SCARD', held_key(pool, id)) > 0 then
    return answer('more')
end
redis.call('DEL', session_key(id), held_key(pool, id), revoked_key(pool, id))
redis.call('ZREM', sessions_key(pool), id)
redis.call('HDEL', rows_key(pool, 'sessions'), id)
if pool == mirrored_pool then
    redis.call('DEL', node_key(id))
end
return answer('done')
