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

-- How leases are kept: see record.lua. A store that knows nothing is begun as we know best.
local version, layout
local era = {}
do
    local found = redis.call('HMGET', era_key, 'identity', 'nonce', 'frozen', 'token_base', 'ttl_max', 'seq',
        'mirror', 'poll', 'version')
    era.known = found[2] and true or false
    version = era.known and tonumber(found[9] or '1') or 2
    if version > 2 then
        return redis.error_reply('VERSION the store was written by a newer Leasehold')
    end
    -- Who knows version 1 only compares these two with what it expects, and does nothing.
    layout = version > 1 and whole(version) .. ' ' or ''
    live = layout .. live
    -- Who mirrors another pool, or elsewhere, keeps its records under other keys: there would be two truths.
    if era.known and (found[7] ~= layout .. ARGV[3] or found[8] ~= ARGV[4]) then
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
    redis.call('HSET', era_key, 'version', whole(version), 'identity', era.identity, 'nonce', era.nonce,
        'frozen', era.frozen and '1' or '0', 'token_base', whole(era.token_base),
        'ttl_max', whole(era.ttl_max), 'seq', whole(era.seq), 'mirror', layout .. ARGV[3], 'poll', ARGV[4])
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
