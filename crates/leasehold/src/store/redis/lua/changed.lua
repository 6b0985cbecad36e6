-- One page of what changed in a pool after a number, in the order of change.
-- Own arguments: 1 what kind, 2 pool, 3 after which number, 4 how many; then the fields of a record that has no row.
local kind, pool, most = arg(1), arg(2), tonumber(arg(4))
local order_key = prefix .. ':' .. pool .. ':seq:' .. kind
local rows, last, more = {}, arg(3), false

-- So many entries of the order after a number: name and number by turns.
local function entries(after, count)
    return redis.call('ZRANGEBYSCORE', order_key, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
end

-- Names and the numbers of their changes. An entry may be a group of many: at first few are asked for, then more as far as
-- they are small.
local function names_in_order()
    local names, numbers, step = {}, {}, 16
    repeat
        local order, place = entries(last, step), 1
        while place < #order and #names < most do
            last = order[place + 1]
            for _, name in ipairs(split(order[place])) do
                names[#names + 1], numbers[#numbers + 1] = name, last
            end
            place = place + 2
        end
        more = place < #order or #order == 2 * step
        step = math.min(4 * step, most)
    until not more or #names >= most
    return names, numbers
end

if kind == 'leases' and is_packed(pool) then
    local names, numbers = names_in_order()
    local found = #names > 0 and redis.call('HMGET', rows_key(pool, kind), unpack(names)) or {}
    for place, text in ipairs(found) do
        -- What changed after its group has an entry of its own, further on.
        if text and string.match(text, '^%d+') == numbers[place] then
            rows[#rows + 1] = text
        end
    end
elseif fields_of[kind] then
    local order, names, keys = entries(last, most), {}, {}
    for place = 1, #order, 2 do
        names[#names + 1] = order[place]
        keys[#keys + 1] = record_key(pool, kind, order[place])
    end
    local found = #names > 0 and redis.call('HMGET', rows_key(pool, kind), unpack(names)) or {}
    -- A session's record may be lost. It is absent then, and not ended.
    local lost = kind == 'sessions' and #keys > 0 and redis.call('EXISTS', unpack(keys)) < #keys
    for place, name in ipairs(names) do
        local number = order[2 * place]
        if not lost and found[place] and string.sub(found[place], 1, #number + 1) == number .. '\31' then
            rows[#rows + 1] = found[place]
        elseif redis.call('EXISTS', keys[place]) == 1 then
            rows[#rows + 1] = row_of(number, pool, kind, name)
        end
    end
    last, more = order[#order] or last, #names == most
else
    local order, fields = entries(last, most), {}
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
    last, more = order[#order] or last, #order == 2 * most
end
return answer(more and 'more' or 'done', last, rows)
