-- The acquire of version 1, as its members called it.
-- The era: which unbroken memory of the server this is. Stands before every script.
--
-- KEYS: 1 the era's record, 2 the nonces of eras that are over, 3 the names of pools.
-- ARGV: 1 prefix, 2 database, 3 the mirrored pool, 4 the mirror's prefix; what the handle remembers: 5 nonce,
-- 6 position, 7 longest TTL; 8 a nonce for a freeze, 9 the TTL of a store that knows nothing. The script's own follow.
local prefix, database = ARGV[1], ARGV[2]
local era_key, past_key, pools_key = KEYS[1], KEYS[2], KEYS[3]

local function arg(number)
    return ARGV[9 + number]
end

-- Tokens and TTLs are whole numbers below 2^53. Beats and nonces may be larger and are compared as text.
local function whole(number)
    return string.format('%.0f', number)
end

-- A primary has another replication id after every start and every promotion. A replica has that of its primary.
local live = string.match(redis.call('INFO', 'replication'), 'role:master.-master_replid:(%w+)')
if not live then
    return redis.error_reply('READONLY the server is a replica')
end

local era = {}
do
    local found = redis.call('HMGET', era_key, 'identity', 'nonce', 'frozen', 'token_base', 'ttl_max', 'seq',
        'mirror', 'poll')
    era.known = found[2] and true or false
    -- Who mirrors another pool, or elsewhere, keeps its records under other keys: there would be two truths.
    if era.known and (found[7] ~= ARGV[3] or found[8] ~= ARGV[4]) then
        return redis.error_reply('MIRROR the store is used with other options')
    end
    era.identity = found[1] or ''
    era.nonce = found[2] or ''
    era.frozen = found[3] == '1'
    era.token_base = tonumber(found[4] or '0')
    -- A store that knows nothing may have forgotten anything.
    era.ttl_max = tonumber(found[5] or ARGV[9])
    era.seq = tonumber(found[6] or '0')
end

-- The number under which a change is found by readers. Every change has one of its own.
local function step()
    era.seq = redis.call('HINCRBY', era_key, 'seq', 1)
    return era.seq
end

local function write_era()
    redis.call('HSET', era_key, 'version', '1', 'identity', era.identity, 'nonce', era.nonce,
        'frozen', era.frozen and '1' or '0', 'token_base', whole(era.token_base),
        'ttl_max', whole(era.ttl_max), 'seq', whole(era.seq), 'mirror', ARGV[3], 'poll', ARGV[4])
end

local function tell(pool)
    redis.call('PUBLISH', prefix .. ':changed:' .. database .. ':' .. pool, '')
end

-- What becomes of the era concerns every pool.
local function tell_all()
    redis.call('PUBLISH', prefix .. ':changed:' .. database, '')
end

local function had(nonce)
    return redis.call('SISMEMBER', past_key, nonce) == 1
end

-- Begins a new era in which nothing is granted or ended until it is thawed.
local function freeze()
    if era.known then
        redis.call('SADD', past_key, era.nonce)
    end
    era.identity, era.nonce, era.frozen, era.known = live, ARGV[8], true, true
    era.seq = era.seq + 1
    write_era()
    tell_all()
end

local function raise_ttl_max(ttl)
    if tonumber(ttl) > era.ttl_max then
        era.ttl_max = tonumber(ttl)
        redis.call('HSET', era_key, 'ttl_max', whole(era.ttl_max))
    end
end

-- How a caller's era stands to the store's: 'present'; 'past' if the store had it, so that the caller slept through a
-- thaw; 'unknown' if the store never had it, so that the store has forgotten.
local function standing(nonce)
    if nonce == era.nonce then
        return 'present'
    end
    return had(nonce) and 'past' or 'unknown'
end

-- Every answer begins with the era it was given in.
local function answer(word, ...)
    return { era.nonce, era.frozen and 1 or 0, whole(era.ttl_max), whole(era.seq), word, ... }
end
-- Freezes the store if it has forgotten something: it has no record of its era, it is another server than the record
-- says, it was set back behind what this handle has seen, or it never had the era that this handle lived through.
do
    local mine
    if ARGV[5] ~= '' then
        mine = { nonce = ARGV[5], seq = tonumber(ARGV[6]), ttl_max = tonumber(ARGV[7]) }
    end
    local forgotten = not era.known or era.identity ~= live
    if mine and not forgotten then
        if mine.nonce == era.nonce then
            forgotten = era.seq < mine.seq
        elseif not era.frozen then
            -- A store that is frozen already was noticed by somebody else.
            forgotten = not had(mine.nonce)
        end
    end
    if mine and (forgotten or era.frozen) then
        if forgotten and era.seq < mine.seq then
            era.seq = mine.seq
        end
        -- Whoever thaws must wait for everybody that anybody remembers.
        if era.ttl_max < mine.ttl_max then
            era.ttl_max = mine.ttl_max
            if not forgotten then
                write_era()
            end
        end
        if mine.nonce ~= era.nonce and not had(mine.nonce) then
            redis.call('SADD', past_key, mine.nonce)
        end
    end
    if forgotten then
        freeze()
    end
end
-- Where records are found. The mirrored pool's leases are where clients look that know nothing of Leasehold.
local mirrored_pool, poll = ARGV[3], ARGV[4]

local function session_key(id)
    return prefix .. ':session:' .. id
end

local function mirror_key(resource)
    return poll .. ':lease:' .. resource
end

local function lease_key(pool, resource)
    if pool == mirrored_pool then
        return poll .. ':fence:{' .. mirror_key(resource) .. '}'
    end
    return prefix .. ':' .. pool .. ':lease:' .. resource
end
-- What readers are told of a lease or a session, in one text with the number of its last change: many read what one writes.
-- A row whose number is not that of the last change is not of the record as it is.
local fields_of = {
    leases = { 'token', 'holder', 'ttl', 'revoked', 'offer_to', 'offer_load', 'foreign' },
    sessions = { 'ttl', 'beat', 'ended', 'profile' },
}

local function rows_key(pool, kind)
    return prefix .. ':' .. pool .. ':rows:' .. kind
end

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
-- How a term stands: what is asked before anything is done under it.

-- Whether there is a tombstone of this session. One that is merely absent has not ended.
local function ended(id)
    return redis.call('HGET', session_key(id), 'ended') == '1'
end

-- What the mirror says. Others write there: something that is no text is somebody's all the same.
local function mirrored(resource)
    local value = redis.pcall('GET', mirror_key(resource))
    return type(value) == 'table' and '?' or value
end

-- Who else than a session of ours has the mirror, if anybody has: what stands there, or a name made from it if that is no
-- id. A value that is the record's holder or any session, ended ones too, is ours.
local function foreigner(pool, resource, holder)
    if pool ~= mirrored_pool then
        return nil
    end
    local value = mirrored(resource)
    if not value or value == holder or redis.call('EXISTS', prefix .. ':session:' .. value) == 1 then
        return nil
    end
    if #value > 128 or not string.match(value, '^[%w._-]+$') then
        return 'foreign-' .. string.sub(redis.sha1hex(value), 1, 16)
    end
    return value
end

-- Who holds exactly this term; nil if nobody does.
local function holder_of(pool, resource, token)
    local found = redis.call('HMGET', lease_key(pool, resource), 'token', 'holder', 'revoked')
    if found[1] ~= token or not found[2] or found[2] == '' then
        return nil
    end
    return found[2], found[3] == '1'
end
-- Sessions: what every call of a session is judged by.
local function session(id)
    local found = redis.call('HMGET', session_key(id), 'pool', 'ttl', 'beat', 'ended', 'reasserted')
    if not found[1] then
        return nil
    end
    return { id = id, pool = found[1], ttl = found[2], beat = found[3], ended = found[4] == '1',
        reasserted = found[5] }
end

local function sessions_key(pool)
    return prefix .. ':' .. pool .. ':seq:sessions'
end

local function held_key(pool, id)
    return prefix .. ':' .. pool .. ':held:' .. id
end

local function revoked_key(pool, id)
    return prefix .. ':' .. pool .. ':revoked:' .. id
end

-- Says that a session changed, to whoever reads by cursor.
local function touch(pool, id)
    local number = whole(step())
    redis.call('ZADD', sessions_key(pool), number, id)
    redis.call('HSET', rows_key(pool, 'sessions'), id, row_of(number, pool, 'sessions', id))
end

local function entomb(found)
    redis.call('HSET', session_key(found.id), 'ended', '1')
    touch(found.pool, found.id)
    tell(found.pool)
end

-- What every call of a session is judged by: era, own record, nothing forgotten. Gives back the session, or else the
-- word that answers the call. In a frozen store only a session that reasserted under the present nonce is let through.
local function meet(id, nonce, confirmed)
    local found = session(id)
    if found and found.ended then
        return nil, 'gone'
    end
    local stands = standing(nonce)
    if era.frozen and not (found and stands == 'present' and found.reasserted == era.nonce) then
        return nil, 'frozen'
    end
    if stands == 'unknown' then
        freeze()
        return nil, 'frozen'
    end
    if stands == 'past' or not found then
        return nil, 'gone'
    end
    -- Less than was confirmed: the store has forgotten.
    if found.beat < confirmed then
        freeze()
        return nil, 'frozen'
    end
    return found
end

-- Raises the beat; a number at or below the stored one changes nothing.
local function raise(found, number)
    if found.beat < number then
        redis.call('HSET', session_key(found.id), 'beat', number)
        touch(found.pool, found.id)
    end
end
-- Leases, and their mirror for clients that know nothing of Leasehold.
--
-- The record (holder and token) is the truth among members. The mirror is the key that others look at; it can only
-- refuse what the record would allow, never allow what the record refuses.
local function leases_key(pool)
    return prefix .. ':' .. pool .. ':seq:leases'
end

local function node_key(id)
    return poll .. ':node:' .. id
end

local function mirror(pool, resource, id, ttl)
    if pool == mirrored_pool then
        redis.call('SET', mirror_key(resource), id, 'PX', ttl)
    end
end

local function unmirror(pool, resource, id)
    if pool == mirrored_pool and mirrored(resource) == id then
        redis.call('DEL', mirror_key(resource))
    end
end

local function show_node(pool, id, ttl)
    if pool == mirrored_pool then
        redis.call('SET', node_key(id), '1', 'PX', ttl)
    end
end

-- Says that leases changed, to whoever reads by cursor and whoever listens. Each change has a number of its own. `records`
-- are what they are now, where that is known.
local function touch_leases(pool, resources, records)
    if #resources == 0 then
        return
    end
    era.seq = redis.call('HINCRBY', era_key, 'seq', #resources)
    local order, rows = {}, {}
    for place, resource in ipairs(resources) do
        local number = whole(era.seq - #resources + place)
        order[2 * place - 1], order[2 * place] = number, resource
        rows[2 * place - 1] = resource
        rows[2 * place] = records and row(number, 'leases', records[place], resource)
            or row_of(number, pool, 'leases', resource)
    end
    redis.call('ZADD', leases_key(pool), unpack(order))
    redis.call('HSET', rows_key(pool, 'leases'), unpack(rows))
    tell(pool)
end

-- Frees what one session holds. The records stay: they keep the tokens. Each item: resource, successor, load.
local function clear(pool, holder, items)
    local resources = {}
    for place, item in ipairs(items) do
        resources[place] = item[1]
        redis.call('HSET', lease_key(pool, item[1]), 'holder', '', 'revoked', '0',
            'offer_to', item[2] or '', 'offer_load', item[3] or '')
        unmirror(pool, item[1], holder)
    end
    if #resources > 0 then
        redis.call('SREM', held_key(pool, holder), unpack(resources))
        redis.call('SREM', revoked_key(pool, holder), unpack(resources))
    end
    touch_leases(pool, resources)
end

-- Gives leases to one session. Each item: resource, token, whether it stays revoked, who held it before.
local function give(pool, id, ttl, items)
    local resources, records = {}, {}
    for place, item in ipairs(items) do
        resources[place], records[place] = item[1], { item[2], id, ttl, item[3] and '1' or '0' }
        if item[4] ~= '' and item[4] ~= id then
            redis.call('SREM', held_key(pool, item[4]), item[1])
            redis.call('SREM', revoked_key(pool, item[4]), item[1])
        end
        redis.call('HSET', lease_key(pool, item[1]), 'token', item[2], 'holder', id, 'ttl', ttl,
            'revoked', item[3] and '1' or '0', 'offer_to', '', 'offer_load', '', 'foreign', '')
        mirror(pool, item[1], id, ttl)
    end
    if #resources > 0 then
        redis.call('SADD', held_key(pool, id), unpack(resources))
        redis.call('SREM', revoked_key(pool, id), unpack(resources))
        for _, item in ipairs(items) do
            if item[3] then
                redis.call('SADD', revoked_key(pool, id), item[1])
            end
        end
    end
    touch_leases(pool, resources, records)
end

-- Notes who else has a lease that no member holds, for members to see. It decides nothing: the mirror does.
local function note(pool, resource, name)
    local key = lease_key(pool, resource)
    redis.call('HSETNX', key, 'token', '0')
    redis.call('HSET', key, 'holder', '', 'ttl', '0', 'revoked', '0', 'foreign', name)
end

-- The terms of a session that its beats do not extend.
local function revoked_terms(pool, id)
    local terms = redis.call('SMEMBERS', revoked_key(pool, id))
    for place, resource in ipairs(terms) do
        terms[place] = { resource, redis.call('HGET', lease_key(pool, resource), 'token') }
    end
    return terms
end
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
