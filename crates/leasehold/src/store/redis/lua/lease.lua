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

-- Writes what leases are now, and says so to whoever reads by cursor and whoever listens. Each change has a number of its own.
local function keep(pool, resources, kept)
    if #resources == 0 then
        return
    end
    era.seq = redis.call('HINCRBY', era_key, 'seq', #resources)
    local before, packed, order, rows = era.seq - #resources, is_packed(pool), {}, {}
    for place, resource in ipairs(resources) do
        local number, record = whole(before + place), kept[place]
        order[2 * place - 1], order[2 * place] = number, resource
        rows[2 * place - 1], rows[2 * place] = resource, row(number, 'leases', record, resource)
        if not packed then
            redis.call('HSET', lease_key(pool, resource), 'token', record[TOKEN], 'holder', record[HOLDER],
                'ttl', record[TTL], 'revoked', record[REVOKED], 'offer_to', record[OFFER_TO],
                'offer_load', record[OFFER_LOAD], 'foreign', record[FOREIGN])
        end
    end
    redis.call('ZADD', leases_key(pool), unpack(order))
    redis.call('HSET', rows_key(pool, 'leases'), unpack(rows))
    tell(pool)
end

-- Says that a session no longer holds these.
local function let_go(pool, holder, resources)
    redis.call('SREM', held_key(pool, holder), unpack(resources))
    redis.call('SREM', revoked_key(pool, holder), unpack(resources))
end

-- Frees what one session holds. The records stay: they keep the tokens. Each item: resource, successor, load.
local function clear(pool, holder, items)
    local resources = {}
    for place, item in ipairs(items) do
        resources[place] = item[1]
        unmirror(pool, item[1], holder)
    end
    if #resources == 0 then
        return
    end
    local kept = records(pool, resources)
    for place, item in ipairs(items) do
        local record = kept[place]
        record[HOLDER], record[REVOKED] = '', '0'
        record[OFFER_TO], record[OFFER_LOAD] = item[2] or '', item[3] or ''
    end
    let_go(pool, holder, resources)
    keep(pool, resources, kept)
end

-- Gives leases to one session. Each item: resource, token, whether it stays revoked, who held it before.
local function give(pool, id, ttl, items)
    local resources, kept, revoked = {}, {}, {}
    for place, item in ipairs(items) do
        resources[place], kept[place] = item[1], { item[2], id, ttl, item[3] and '1' or '0', '', '', '' }
        if item[3] then
            revoked[#revoked + 1] = item[1]
        end
        if item[4] ~= '' and item[4] ~= id then
            let_go(pool, item[4], { item[1] })
        end
        mirror(pool, item[1], id, ttl)
    end
    if #resources > 0 then
        redis.call('SADD', held_key(pool, id), unpack(resources))
        redis.call('SREM', revoked_key(pool, id), unpack(resources))
    end
    if #revoked > 0 then
        redis.call('SADD', revoked_key(pool, id), unpack(revoked))
    end
    keep(pool, resources, kept)
end

-- Gives leases that nobody was ever given, in a packed pool, all under the same token. They are one change with one number,
-- and a group: one entry in the order and among what the session holds. As a lease is given for the first time only once, it is in
-- no second group; its later changes have entries of their own.
local function give_first(pool, id, ttl, token, resources)
    if #resources == 0 then
        return
    end
    local number, rows, group = whole(step()), {}, table.concat(resources, '\31')
    local start = row(number, 'leases', { token, id, ttl, '0' }, '')
    for place, resource in ipairs(resources) do
        rows[2 * place - 1], rows[2 * place] = resource, start .. resource
    end
    redis.call('HSET', rows_key(pool, 'leases'), unpack(rows))
    redis.call('ZADD', leases_key(pool), number, group)
    redis.call('SADD', held_key(pool, id), group)
    tell(pool)
end

-- Notes who else has leases that no member holds, for members to see. It decides nothing: the mirror does. Each item: resource,
-- who, the record as it is.
local function note(pool, items)
    local resources, kept = {}, {}
    for place, item in ipairs(items) do
        local record = item[3]
        if (record[HOLDER] or '') ~= '' then
            let_go(pool, record[HOLDER], { item[1] })
        end
        resources[place] = item[1]
        kept[place] = { record[TOKEN] or '0', '', '0', '0', record[OFFER_TO], record[OFFER_LOAD], item[2] }
    end
    keep(pool, resources, kept)
end

-- The terms of a session that its beats do not extend.
local function revoked_terms(pool, id)
    local terms = redis.call('SMEMBERS', revoked_key(pool, id))
    local known = records(pool, terms)
    for place, resource in ipairs(terms) do
        terms[place] = { resource, known[place] and known[place][TOKEN] }
    end
    return terms
end
