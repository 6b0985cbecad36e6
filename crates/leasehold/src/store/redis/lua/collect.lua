-- Clears what a session with a tombstone held, a part with each call, and forgets the tombstone with the last. A frozen
-- store keeps it: it is what refuses an ended session that would reassert. Own arguments: 1 id, 2 how many.
local found = session(arg(1))
if era.frozen or not found or not found.ended then
    return answer('done')
end
local id, pool, most = found.id, found.pool, tonumber(arg(2))

-- Some of what the session is said to hold: entries, each a resource or a group, and all resources that they name.
local function some()
    local entries, resources = {}, {}
    for _, entry in ipairs(redis.call('SRANDMEMBER', held_key(pool, id), 1)) do
        local is_group = string.find(entry, '\31', 1, true)
        entries = is_group and { entry } or redis.call('SRANDMEMBER', held_key(pool, id), most)
    end
    for place, entry in ipairs(entries) do
        if #resources >= most then
            entries[place] = nil
        else
            for _, resource in ipairs(split(entry)) do
                resources[#resources + 1] = resource
            end
        end
    end
    return entries, resources
end

local entries, resources = some()
local known, over, seen = records(pool, resources), {}, {}
for place, resource in ipairs(resources) do
    local record = known[place]
    -- What is said may lag behind the record, which counts.
    if record and record[HOLDER] == id and not seen[resource] then
        seen[resource] = true
        over[#over + 1] = { resource, record[OFFER_TO], record[OFFER_LOAD] }
    end
end
clear(pool, id, over)
if #entries > 0 then
    redis.call('SREM', held_key(pool, id), unpack(entries))
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
