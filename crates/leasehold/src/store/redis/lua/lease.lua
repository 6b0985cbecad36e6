-- Leases, and their mirror for clients that know nothing of Leasehold.
--
-- The record (holder and token) is the truth among members. The mirror is the key that others look at; it can only
-- refuse what the record would allow, never allow what the record refuses.
local mirrored_pool, poll = ARGV[3], ARGV[4]

local function leases_key(pool)
    return prefix .. ':' .. pool .. ':seq:leases'
end

local function mirror_key(resource)
    return poll .. ':lease:' .. resource
end

local function node_key(id)
    return poll .. ':node:' .. id
end

local function lease_key(pool, resource)
    if pool == mirrored_pool then
        return poll .. ':fence:{' .. mirror_key(resource) .. '}'
    end
    return prefix .. ':' .. pool .. ':lease:' .. resource
end

-- What the mirror says. Others write there: something that is no text is somebody's all the same.
local function mirrored(resource)
    local value = redis.pcall('GET', mirror_key(resource))
    return type(value) == 'table' and '?' or value
end

-- Who else than a session of ours has the mirror, if anybody has. A value that is the record's holder or any session,
-- ended ones too, is ours.
local function foreigner(pool, resource, holder)
    if pool ~= mirrored_pool then
        return nil
    end
    local value = mirrored(resource)
    if not value or value == holder or redis.call('EXISTS', prefix .. ':session:' .. value) == 1 then
        return nil
    end
    return value
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

local function touch_lease(pool, resource)
    redis.call('ZADD', leases_key(pool), step(), resource)
end

-- Frees a lease. The record stays: it keeps the token.
local function clear(pool, resource, holder, offer_to, offer_load)
    redis.call('HSET', lease_key(pool, resource), 'holder', '', 'revoked', '0',
        'offer_to', offer_to or '', 'offer_load', offer_load or '')
    redis.call('SREM', held_key(pool, holder), resource)
    redis.call('SREM', revoked_key(pool, holder), resource)
    unmirror(pool, resource, holder)
    touch_lease(pool, resource)
end

-- Gives a lease to a session.
local function give(pool, resource, token, id, ttl, revoked)
    redis.call('HSET', lease_key(pool, resource), 'token', token, 'holder', id, 'ttl', ttl,
        'revoked', revoked and '1' or '0', 'offer_to', '', 'offer_load', '')
    redis.call('SADD', held_key(pool, id), resource)
    redis.call(revoked and 'SADD' or 'SREM', revoked_key(pool, id), resource)
    mirror(pool, resource, id, ttl)
    touch_lease(pool, resource)
end

-- Who holds exactly this term; nil if nobody does.
local function holder_of(pool, resource, token)
    local found = redis.call('HMGET', lease_key(pool, resource), 'token', 'holder', 'revoked')
    if found[1] ~= token or not found[2] or found[2] == '' then
        return nil
    end
    return found[2], found[3] == '1'
end

-- The terms of a session that its beats do not extend.
local function revoked_terms(pool, id)
    local terms = redis.call('SMEMBERS', revoked_key(pool, id))
    for place, resource in ipairs(terms) do
        terms[place] = { resource, redis.call('HGET', lease_key(pool, resource), 'token') }
    end
    return terms
end
