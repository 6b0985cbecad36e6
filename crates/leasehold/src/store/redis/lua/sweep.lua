-- Takes away what version 1 kept of leases beside their rows, a part with each call. Own arguments: 1 pool, 2 after which number,
-- 3 how many entries; nothing to say that all is done.
if not arg(1) then
    redis.call('HDEL', era_key, 'leftover')
    return answer('done')
end
local pool, last = arg(1), arg(2)
local order = is_packed(pool)
        and redis.call('ZRANGEBYSCORE', leases_key(pool), '(' .. last, '+inf', 'WITHSCORES', 'LIMIT', 0, arg(3))
    or {}
for place = 1, #order, 2 do
    last = order[place + 1]
    for _, resource in ipairs(split(order[place])) do
        redis.call('DEL', lease_key(pool, resource))
    end
end
return answer(#order == 2 * tonumber(arg(3)) and 'more' or 'done', last)
