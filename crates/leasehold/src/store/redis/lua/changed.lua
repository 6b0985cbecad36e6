-- One page of what changed in a pool after a number, in the order of change.
-- Own arguments: 1 what kind, 2 pool, 3 after which number, 4 how many; then the fields of a record that has no row.
local kind, pool = arg(1), arg(2)
local order = redis.call('ZRANGEBYSCORE', prefix .. ':' .. pool .. ':seq:' .. kind, '(' .. arg(3), '+inf',
    'WITHSCORES', 'LIMIT', 0, arg(4))
local rows, last = {}, #order > 0 and order[#order] or arg(3)
if fields_of[kind] and #order > 0 then
    local names, keys = {}, {}
    for place = 1, #order, 2 do
        names[#names + 1] = order[place]
        keys[#keys + 1] = record_key(pool, kind, order[place])
    end
    local found = redis.call('HMGET', rows_key(pool, kind), unpack(names))
    -- A session's record may be lost. It is absent then, and not ended.
    local lost = kind == 'sessions' and redis.call('EXISTS', unpack(keys)) < #keys
    for place, name in ipairs(names) do
        local number = order[2 * place]
        if not lost and found[place] and string.sub(found[place], 1, #number + 1) == number .. '\31' then
            rows[#rows + 1] = found[place]
        elseif redis.call('EXISTS', keys[place]) == 1 then
            rows[#rows + 1] = row_of(number, pool, kind, name)
        end
    end
else
    local fields = {}
    for place = 5, #ARGV - 9 do
        fields[#fields + 1] = arg(place)
    end
    for place = 1, #order, 2 do
        local name = order[place]
        local record = redis.call('HMGET', prefix .. ':' .. pool .. ':' .. kind .. ':' .. name, unpack(fields))
        if record[1] then
            record[#fields + 1] = name
            rows[#rows + 1] = record
        end
    end
end
return answer(#order == 2 * tonumber(arg(4)) and 'more' or 'done', last, rows)
