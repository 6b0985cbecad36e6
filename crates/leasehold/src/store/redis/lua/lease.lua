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
