-- Decides who gets resources: the caller, if nobody was given one, its holder let go, or there is a tombstone of its
-- holder. A holder that is merely absent keeps it, and so does a foreigner that has the mirror.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed, 5 the last token there is; then resource and floor, again and again.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
if era.frozen then
    return answer('frozen')
end
raise(found, arg(3))
local id, pool, ttl, last = found.id, found.pool, found.ttl, tonumber(arg(5))
local is_ended, outcomes, granted = {}, {}, false
for place = 6, #ARGV - 9, 2 do
    local resource, floor = arg(place), tonumber(arg(place + 1))
    local record = redis.call('HMGET', lease_key(pool, resource), 'token', 'holder')
    local token, holder = tonumber(record[1] or '0'), record[2] or ''
    if holder ~= '' and is_ended[holder] == nil then
        is_ended[holder] = ended(holder)
    end
    local other = foreigner(pool, resource, holder)
    if other then
        outcomes[#outcomes + 1] = { 'foreign', other, whole(token), redis.call('PTTL', mirror_key(resource)) }
    elseif holder ~= '' and not is_ended[holder] then
        outcomes[#outcomes + 1] = { 'held', holder, whole(token) }
    else
        local highest = math.max(token, floor, era.token_base)
        if highest >= last then
            outcomes[#outcomes + 1] = { 'used up', resource, whole(highest) }
        else
            if holder ~= '' then
                redis.call('SREM', held_key(pool, holder), resource)
                redis.call('SREM', revoked_key(pool, holder), resource)
            end
            give(pool, resource, whole(highest + 1), id, ttl, false)
            outcomes[#outcomes + 1] = { 'granted', resource, whole(highest + 1) }
            granted = true
        end
    end
end
if granted then
    redis.call('SADD', pools_key, pool)
    tell(pool)
end
return answer('done', outcomes)
