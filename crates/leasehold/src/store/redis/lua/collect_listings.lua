-- Forgets the listings that no living session of the pool publishes. Own arguments: 1 pool.
local pool = arg(1)
local key = prefix .. ':' .. pool .. ':registry:listings'
local used = {}
for _, id in ipairs(redis.call('ZRANGE', sessions_key(pool), 0, -1)) do
    local found = redis.call('HMGET', session_key(id), 'ended', 'listing')
    if found[1] == '0' and found[2] then
        used[found[2]] = true
    end
end
for _, listing in ipairs(redis.call('HKEYS', key)) do
    if not used[listing] then
        redis.call('HDEL', key, listing)
    end
end
return answer('done')
