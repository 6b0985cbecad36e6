-- Whether nothing is new among leases, marks and declared resources; only then what changed among sessions is read, by
-- what follows. Own arguments: those of a page, then after which number of each of the three.
local since = {}
for place = 3, 1, -1 do
    since[place] = table.remove(ARGV)
end
for place, kind in ipairs({ 'leases', 'marks', 'declared' }) do
    local order = prefix .. ':' .. arg(2) .. ':seq:' .. kind
    if #redis.call('ZRANGEBYSCORE', order, '(' .. since[place], '+inf', 'LIMIT', 0, 1) > 0 then
        return answer('news')
    end
end
