-- What is kept of a lease, always in this order. A lease has a record from its first grant on, for ever.
--
-- In a pool that is packed the record is the row that readers are told: one text in one hash of the whole pool, so that a
-- batch is read by one command and written by another. The mirrored pool, where others look, and all pools of a store of
-- version 1 have a hash for each lease, and the row is a copy of it.
local TOKEN, HOLDER, TTL, REVOKED, OFFER_TO, OFFER_LOAD, FOREIGN = 1, 2, 3, 4, 5, 6, 7
local lease_fields = { 'token', 'holder', 'ttl', 'revoked', 'offer_to', 'offer_load', 'foreign' }

local function rows_key(pool, kind)
    return prefix .. ':' .. pool .. ':rows:' .. kind
end

local function is_packed(pool)
    return version > 1 and pool ~= mirrored_pool
end

-- Ids are without this character, so it can stand between fields, and between the names of a group.
local function split(text)
    local parts = {}
    for part in string.gmatch(text .. '\31', '([^\31]*)\31') do
        parts[#parts + 1] = part
    end
    return parts
end

-- The records of leases, each after the other; false for one that was never given.
local function records(pool, resources)
    local found = {}
    if #resources == 0 then
        return found
    end
    if is_packed(pool) then
        found = redis.call('HMGET', rows_key(pool, 'leases'), unpack(resources))
        for place = 1, #resources do
            if found[place] then
                found[place] = split(string.match(found[place], '^%d+\31(.*)\31'))
            end
        end
        return found
    end
    for place, resource in ipairs(resources) do
        local record = redis.call('HMGET', lease_key(pool, resource), unpack(lease_fields))
        for field = HOLDER, FOREIGN do
            record[field] = record[field] or ''
        end
        found[place] = record[TOKEN] and record
    end
    return found
end
