-- A session of which the store may have forgotten anything says that it is there and what it holds.
-- Own arguments: 1 id, 2 pool, 3 TTL, 4 profile, 5 listing, 6 era, 7 number, 8 '1' with the last part; then resource and
-- token, again and again.
--
-- A term is kept unless the store has a newer token, or knows that this very term is free or somebody else's. A
-- revocation stays. What a foreigner has taken meanwhile is lost.
local id, pool, ttl = arg(1), arg(2), arg(3)
local found = session(id)
if found and found.ended then
    return answer('gone')
end
if era.nonce ~= arg(6) then
    return answer(era.frozen and 'frozen' or 'gone')
end
if not era.frozen then
    return answer('gone')
end
-- First everything is decided, then everything is written.
local resources, outcomes, kept, seen = {}, {}, {}, {}
for place = 9, #ARGV - 9, 2 do
    resources[#resources + 1] = arg(place)
end
local known = records(pool, resources)
for place = 9, #ARGV - 9, 2 do
    local resource, token = arg(place), tonumber(arg(place + 1))
    local record = known[#outcomes + 1] or { '-1', '' }
    local stored, holder, revoked = tonumber(record[TOKEN]), record[HOLDER], record[REVOKED] == '1'
    if seen[resource] then
        -- It was said twice: the second is judged by what the first made of it.
        stored, holder, revoked = seen[resource][1], id, seen[resource][2]
    end
    if stored > token or (stored == token and holder ~= id) or foreigner(pool, resource, id) then
        outcomes[#outcomes + 1] = 0
    else
        revoked = revoked and stored == token
        kept[#kept + 1] = { resource, arg(place + 1), revoked, holder }
        seen[resource] = { token, revoked }
        outcomes[#outcomes + 1] = 1
    end
end
raise_ttl_max(ttl)
local beat = arg(7)
if found and found.beat > beat then
    beat = found.beat
end
redis.call('HSET', session_key(id), 'pool', pool, 'ttl', ttl, 'beat', beat, 'ended', '0', 'profile', arg(4),
    'listing', arg(5))
-- Only who has said everything has reasserted: who is thawed away before that is over, with all it holds.
if arg(8) == '1' then
    redis.call('HSET', session_key(id), 'reasserted', era.nonce)
elseif not found then
    redis.call('HSET', session_key(id), 'reasserted', '')
end
redis.call('SADD', pools_key, pool)
touch(pool, id)
show_node(pool, id, ttl)
give(pool, id, ttl, kept)
tell(pool)
return answer('done', outcomes)
