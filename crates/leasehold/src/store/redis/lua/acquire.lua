-- Decides who gets resources: the caller, if nobody was given one, its holder let go, or there is a tombstone of its
-- holder. A holder that is merely absent keeps it, and so does a foreigner that has the mirror, who is noted then.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed, 5 the last token there is; then resource and floor, again and again.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
if era.frozen then
    return answer('frozen')
end
local id, pool, last = found.id, found.pool, tonumber(arg(5))
-- First everything is decided, then everything is written.
local is_ended, mine, outcomes, granted, noted = {}, {}, {}, {}, {}
for place = 6, #ARGV - 9, 2 do
    local resource, floor = arg(place), tonumber(arg(place + 1))
    local record = redis.call('HMGET', lease_key(pool, resource), 'token', 'holder', 'foreign')
    local token, holder = tonumber(record[1] or '0'), record[2] or ''
    if holder ~= '' and is_ended[holder] == nil then
        is_ended[holder] = ended(holder)
    end
    local other = foreigner(pool, resource, holder)
    local highest = math.max(token, floor, era.token_base)
    local outcome
    if mine[resource] then
        -- It was wanted twice.
        outcome = { 'held', id, mine[resource] }
    elseif other then
        outcome = { 'foreign', other, whole(token), redis.call('PTTL', mirror_key(resource)) }
        if (holder == '' or is_ended[holder]) and record[3] ~= other then
            noted[#noted + 1] = { resource, other, holder }
        end
    elseif holder ~= '' and not is_ended[holder] then
        outcome = { 'held', holder, whole(token) }
    elseif highest >= last then
        outcome = { 'used up', resource, whole(highest) }
    else
        mine[resource] = whole(highest + 1)
        granted[#granted + 1] = { resource, mine[resource], false, holder }
        outcome = { 'granted', resource, mine[resource] }
    end
    outcomes[#outcomes + 1] = outcome
end
raise(found, arg(3))
if #granted > 0 then
    redis.call('SADD', pools_key, pool)
end
give(pool, id, found.ttl, granted)
for place, item in ipairs(noted) do
    if item[3] ~= '' then
        redis.call('SREM', held_key(pool, item[3]), item[1])
        redis.call('SREM', revoked_key(pool, item[3]), item[1])
    end
    note(pool, item[1], item[2])
    noted[place] = item[1]
end
touch_leases(pool, noted)
return answer('done', outcomes)
