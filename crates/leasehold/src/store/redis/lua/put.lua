-- Writes a mark or a declared resource, or its removal, if its version is still the expected one.
-- Own arguments: 1 what kind, 2 pool, 3 name, 4 expected version; then names and values of fields, again and again.
local kind, pool, name = arg(1), arg(2), arg(3)
local key = prefix .. ':' .. pool .. ':' .. kind .. ':' .. name
local version = redis.call('HGET', key, 'version') or '0'
if version ~= arg(4) then
    return answer('conflict', version)
end
-- A field that is not given is absent, which is not the same as empty.
redis.call('DEL', key)
version = whole(tonumber(version) + 1)
redis.call('HSET', key, 'version', version)
for place = 5, #ARGV - 9, 2 do
    redis.call('HSET', key, arg(place), arg(place + 1))
end
redis.call('ZADD', prefix .. ':' .. pool .. ':seq:' .. kind, step(), name)
if kind == 'declared' then
    redis.call('SADD', pools_key, pool)
end
tell(pool)
return answer('set', version)
