-- Decides who gets resources: the caller, if nobody was given one, its holder let go, or there is a tombstone of its
-- holder. A holder that is merely absent keeps it, and so does a foreigner that has the mirror, who is noted then.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed, 5 the last token there is, 6 how many resources; then they; then
-- place and floor of those that have one.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
if era.frozen then
    return answer('frozen')
end
local id, pool, last, count = found.id, found.pool, tonumber(arg(5)), tonumber(arg(6))
local resources, floors = { unpack(ARGV, 16, 15 + count) }, {}
for place = 7 + count, #ARGV - 9, 2 do
    floors[tonumber(arg(place))] = tonumber(arg(place + 1))
end
local known = records(pool, resources)
-- First everything is decided, then everything is written.
local is_ended, mine, outcomes, fresh, granted, noted = {}, {}, {}, {}, {}, {}

local function is_over(holder)
    if holder ~= '' and is_ended[holder] == nil then
        is_ended[holder] = ended(holder)
    end
    return holder == '' or is_ended[holder]
end

local function judge(resource, record, floor)
    local token, holder = tonumber(record[TOKEN] or '0'), record[HOLDER] or ''
    local other = foreigner(pool, resource, holder)
    local highest = math.max(token, floor, era.token_base)
    if mine[resource] then
        -- It was wanted twice.
        return { 'held', id, mine[resource] }
    elseif other then
        if is_over(holder) and record[FOREIGN] ~= other then
            noted[#noted + 1] = { resource, other, record }
        end
        return { 'foreign', other, whole(token), redis.call('PTTL', mirror_key(resource)) }
    elseif not is_over(holder) then
        return { 'held', holder, whole(token) }
    elseif highest >= last then
        return { 'used up', resource, whole(highest) }
    end
    mine[resource] = whole(highest + 1)
    granted[#granted + 1] = { resource, mine[resource], false, holder }
    return mine[resource]
end

-- What was never given and nobody knows a token of is the rule in a batch, and there is nothing to weigh.
local first = is_packed(pool) and era.token_base < last and whole(era.token_base + 1)
for place, resource in ipairs(resources) do
    if first and not known[place] and not floors[place] and not mine[resource] then
        mine[resource] = first
        fresh[#fresh + 1] = resource
        outcomes[place] = first
    else
        outcomes[place] = judge(resource, known[place] or {}, floors[place] or 0)
    end
end
raise(found, arg(3))
if #fresh + #granted > 0 then
    redis.call('SADD', pools_key, pool)
end
give_first(pool, id, found.ttl, first, fresh)
give(pool, id, found.ttl, granted)
note(pool, noted)
return answer('done', outcomes)
