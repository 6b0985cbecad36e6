-- One page of what changed in a pool after a number, in the order of change.
-- Own arguments: 1 what kind, 2 pool, 3 after which number, 4 how many; then the fields of a record.
local pool = arg(2)
local order = redis.call('ZRANGEBYSCORE', prefix .. ':' .. pool .. ':seq:' .. arg(1), '(' .. arg(3), '+inf',
    'WITHSCORES', 'LIMIT', 0, arg(4))
local fields = {}
for place = 5, #ARGV - 9 do
    fields[#fields + 1] = arg(place)
end
local function key_of(name)
    if arg(1) == 'leases' then
        return lease_key(pool, name)
    elseif arg(1) == 'sessions' then
        return session_key(name)
    end
    return prefix .. ':' .. pool .. ':' .. arg(1) .. ':' .. name
end
local rows, last = {}, arg(3)
for place = 1, #order, 2 do
    local record = redis.call('HMGET', key_of(order[place]), unpack(fields))
    last = order[place + 1]
    -- A session's record may be lost. It is absent then, and not ended.
    if record[1] then
        record[#fields + 1] = order[place]
        rows[#rows + 1] = record
    end
end
return answer(#order == 2 * tonumber(arg(4)) and 'more' or 'done', last, rows)
