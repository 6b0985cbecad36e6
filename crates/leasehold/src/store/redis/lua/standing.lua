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

-- Who holds exactly this term, given its record; nil if nobody does.
local function holder_by(record, token)
    if not record or record[TOKEN] ~= token or record[HOLDER] == '' then
        return nil
    end
    return record[HOLDER], record[REVOKED] == '1'
end

local function holder_of(pool, resource, token)
    return holder_by(records(pool, { resource })[1], token)
end
