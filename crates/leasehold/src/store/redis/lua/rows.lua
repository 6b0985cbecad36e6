-- What readers are told of a lease, in one text with the number of its last change: many read what one writes. A row whose
-- number is not that of the last change is not of the record as it is.
local lease_fields = { 'token', 'holder', 'ttl', 'revoked', 'offer_to', 'offer_load', 'foreign' }

local function rows_key(pool)
    return prefix .. ':' .. pool .. ':rows:leases'
end

local function row(number, record, resource)
    for place = 1, #lease_fields do
        record[place] = record[place] or ''
    end
    return number .. '\31' .. table.concat(record, '\31') .. '\31' .. resource
end

local function row_of(number, pool, resource)
    return row(number, redis.call('HMGET', lease_key(pool, resource), unpack(lease_fields)), resource)
end
