-- Keeps up the mirror of a part of what a session holds. Own arguments: 1 id, 2 cursor, 3 how many about.
--
-- What the mirror lacks is put back. What a foreigner has is lost: it is marked as revoked, so that the holder's beats do
-- not extend it, and stays the holder's in the record until the holder lets go, as no other member may have it before.
-- The mirror of an ended session is taken away.
local found = session(arg(1))
if not found or found.pool ~= mirrored_pool then
    return answer('done', '0', {})
end
if era.frozen and found.reasserted ~= era.nonce and not found.ended then
    return answer('frozen')
end
local id, pool, lost, marked, kept = found.id, found.pool, {}, {}, {}
local page = redis.call('SSCAN', held_key(pool, id), arg(2), 'COUNT', arg(3))
-- As a rule all mirrors and rows say what they should, and two questions tell.
local shown, rows, keys = {}, {}, {}
for place, resource in ipairs(page[2]) do
    keys[place] = mirror_key(resource)
end
if #keys > 0 then
    shown = redis.call('MGET', unpack(keys))
    rows = redis.call('HMGET', rows_key(pool, 'leases'), unpack(page[2]))
end
local function is_in_order(place)
    return shown[place] == id and not found.ended and rows[place]
        and string.match(rows[place], '^%d+\31%d+\31([^\31]*)') == id
end
local function look_after(resource)
    local record = records(pool, { resource })[1]
    if not record or record[HOLDER] ~= id then
        -- The set may lag behind the record where the server lost keys; the record counts.
        redis.call('SREM', held_key(pool, id), resource)
    elseif found.ended then
        unmirror(pool, resource, id)
    elseif foreigner(pool, resource, id) then
        if record[REVOKED] ~= '1' then
            record[REVOKED] = '1'
            redis.call('SADD', revoked_key(pool, id), resource)
            marked[#marked + 1], kept[#kept + 1] = resource, record
        end
        lost[#lost + 1] = { resource, record[TOKEN] }
    else
        mirror(pool, resource, id, found.ttl)
    end
end
for place, resource in ipairs(page[2]) do
    if is_in_order(place) then
        mirror(pool, resource, id, found.ttl)
    else
        look_after(resource)
    end
end
if found.ended then
    redis.call('DEL', node_key(id))
end
keep(pool, marked, kept)
return answer('done', page[1], lost)
