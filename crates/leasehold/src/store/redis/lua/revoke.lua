-- Marks a term as revoked if somebody without a tombstone holds it. Own arguments: 1 pool, 2 resource, 3 token.
if era.frozen then
    return answer('frozen')
end
local pool, resource = arg(1), arg(2)
local holder = holder_of(pool, resource, arg(3))
if not holder or ended(holder) then
    return answer('not held')
end
redis.call('HSET', lease_key(pool, resource), 'revoked', '1')
redis.call('SADD', revoked_key(pool, holder), resource)
touch_leases(pool, { resource })
return answer('marked')
