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
