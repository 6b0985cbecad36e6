-- What readers are told of a lease or a session, in one text with the number of its last change: many read what one writes.
-- A row whose number is not that of the last change is not of the record as it is.
local fields_of = { leases = lease_fields, sessions = { 'ttl', 'beat', 'ended', 'profile' } }

local function record_key(pool, kind, name)
    return kind == 'sessions' and session_key(name) or lease_key(pool, name)
end

local function row(number, kind, record, name)
    for place = 1, #fields_of[kind] do
        record[place] = record[place] or ''
    end
    return number .. '\31' .. table.concat(record, '\31') .. '\31' .. name
end

local function row_of(number, pool, kind, name)
    return row(number, kind, redis.call('HMGET', record_key(pool, kind, name), unpack(fields_of[kind])), name)
end
