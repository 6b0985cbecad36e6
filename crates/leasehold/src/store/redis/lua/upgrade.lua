-- Makes a store of version 1 one of version 2, step by step. Own arguments: 1 how many leases at once; then for every pool its
-- name and up to which number its rows were looked at.
--
-- A row may be of an earlier change than the record, if somebody wrote who knows nothing of rows. All are looked at, a part with
-- each call. Where all that is left is little, it is looked at too, and with that the rows are the records.
if not era.known or version > 1 then
    return answer('done')
end
local left, reached, steps = tonumber(arg(1)), {}, {}
for place = 2, #ARGV - 9, 2 do
    reached[arg(place)] = arg(place + 1)
end

local function look_through(pool)
    local after = reached[pool] or '0'
    local order = redis.call('ZRANGEBYSCORE', leases_key(pool), '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, left)
    for place = 1, #order, 2 do
        local name, number = order[place], order[place + 1]
        local told = redis.call('HGET', rows_key(pool, 'leases'), name) or ''
        if string.match(told, '^%d+') ~= number then
            if redis.call('EXISTS', lease_key(pool, name)) == 1 then
                redis.call('HSET', rows_key(pool, 'leases'), name, row_of(number, pool, 'leases', name))
            else
                redis.call('HDEL', rows_key(pool, 'leases'), name)
            end
        end
        after, left = number, left - 1
    end
    return after
end

for _, pool in ipairs(redis.call('SMEMBERS', pools_key)) do
    if pool ~= mirrored_pool then
        steps[#steps + 1] = { pool, left > 0 and look_through(pool) or reached[pool] or '0' }
    end
end
if left <= 0 then
    return answer('more', steps)
end
version, layout = 2, '2 '
era.identity = layout .. era.identity
write_era()
redis.call('HSET', era_key, 'leftover', '1')
return answer('done')
