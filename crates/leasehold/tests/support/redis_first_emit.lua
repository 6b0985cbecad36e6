-- The emit of version 1, as its members called it.
-- The short way, for what is asked very often: whether the server is just what this handle has seen of it. Where it is not,
-- nothing is done, and a script that judges the era is to be called first. Keys and arguments are those of era.lua.
local prefix = ARGV[1]

local function arg(number)
    return ARGV[9 + number]
end

local nonce, frozen = ARGV[5], false
do
    local live = string.match(redis.call('INFO', 'replication'), 'role:master.-master_replid:(%w+)')
    local found = redis.call('HMGET', KEYS[1], 'identity', 'nonce', 'seq', 'frozen')
    if found[1] ~= live or found[2] ~= nonce or tonumber(found[3]) < tonumber(ARGV[6]) then
        return { 'unseen' }
    end
    frozen = found[4] == '1'
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
-- Tells what was found out under terms, each if its term stands and its holder has not ended. In a frozen store nothing stands
-- that was not said again.
-- Own arguments: 1 pool; then for each: resource, token, holder, kind, channel or key, how many a stream keeps, what.
local pool, lives = arg(1), {}

-- As a rule all are of one holder.
local function may_speak(holder)
    if lives[holder] == nil then
        local found = redis.call('HMGET', session_key(holder), 'ended', 'reasserted')
        lives[holder] = found[1] ~= '1' and (not frozen or found[2] == nonce)
    end
    return lives[holder]
end

local function stands(resource, token, holder)
    return holder_of(pool, resource, token) == holder and may_speak(holder) and not foreigner(pool, resource, holder)
end

local said = {}
for at = 2, #ARGV - 9, 7 do
    local resource, token, holder, outlet, what = arg(at), arg(at + 1), arg(at + 2), arg(at + 4), arg(at + 6)
    if not stands(resource, token, holder) then
        said[#said + 1] = 'stale'
    else
        if arg(at + 3) == 'stream' then
            redis.call('XADD', outlet, 'MAXLEN', '~', arg(at + 5), '*', 'id', resource, 'token', token,
                'instance', holder, 'result', what)
        else
            redis.call('PUBLISH', outlet, what)
        end
        said[#said + 1] = 'told'
    end
end
return said
