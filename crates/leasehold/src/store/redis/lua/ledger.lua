-- The lines of a pool after a line, oldest first; with a resource, only its lines.
-- Own arguments: 1 pool, 2 resource, 3 after which line, 4 how many.
local start = prefix .. ':' .. arg(1) .. ':ledger:'
local numbers = {}
if arg(2) ~= '' then
    numbers = redis.call('ZRANGEBYSCORE', start .. 'of:' .. arg(2), '(' .. arg(3), '+inf', 'LIMIT', 0, arg(4))
else
    local ends = redis.call('HMGET', start .. 'ends', 'first', 'last')
    local from = math.max(tonumber(ends[1] or '1'), tonumber(arg(3)) + 1)
    local to = math.min(tonumber(ends[2] or '0'), from + tonumber(arg(4)) - 1)
    for number = from, to do
        numbers[#numbers + 1] = whole(number)
    end
end
local lines = {}
for place, number in ipairs(numbers) do
    local line = redis.call('HGET', start .. 'lines', number) or ''
    lines[place] = { number, string.match(line, '^%S* %S* (.*)$') or '' }
end
return answer('done', lines)
