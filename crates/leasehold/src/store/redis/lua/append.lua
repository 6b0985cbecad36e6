-- Appends lines to the ledger of a pool. A member's confirmed heartbeat takes the place of the one before.
-- Own arguments: 1 pool, 2 how many lines are kept; then resource, renewing member and entry, again and again.
local start = prefix .. ':' .. arg(1) .. ':ledger:'
local lines_key, renews_key, marks_key = start .. 'lines', start .. 'renews', start .. 'ends'
local ends = redis.call('HMGET', marks_key, 'first', 'last')
local first, last = tonumber(ends[1] or '1'), tonumber(ends[2] or '0')
local count = 0
for place = 3, #ARGV - 9, 3 do
    local resource, renews = arg(place), arg(place + 1)
    -- Neither ids nor numbers hold a space.
    local line = resource .. ' ' .. renews .. ' ' .. arg(place + 2)
    local before = renews ~= '' and redis.call('HGET', renews_key, renews)
    if before then
        redis.call('HSET', lines_key, before, line)
    else
        last = last + 1
        redis.call('HSET', lines_key, whole(last), line)
        if renews ~= '' then
            redis.call('HSET', renews_key, renews, whole(last))
        end
        if resource ~= '' then
            redis.call('ZADD', start .. 'of:' .. resource, last, whole(last))
        end
    end
    count = count + 1
end
-- More than came in, so that the bound is reached again after it was lowered.
local surplus = math.min(last - first + 1 - tonumber(arg(2)), count + 64)
for _ = 1, surplus do
    local line = redis.call('HGET', lines_key, whole(first)) or ''
    local resource, renews = string.match(line, '^(%S*) (%S*) ')
    if renews and renews ~= '' then
        redis.call('HDEL', renews_key, renews)
    end
    if resource and resource ~= '' then
        redis.call('ZREM', start .. 'of:' .. resource, whole(first))
    end
    redis.call('HDEL', lines_key, whole(first))
    first = first + 1
end
redis.call('HSET', marks_key, 'first', whole(first), 'last', whole(last))
return answer('done')
