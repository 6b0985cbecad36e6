-- Marks a term as revoked if somebody without a tombstone holds it. Own arguments: 1 pool, 2 resource, 3 token.
if era.frozen then
    return answer('frozen')
end
local pool, resource = arg(1), arg(2)
local record = records(pool, { resource })[1]
local holder = holder_by(record, arg(3))
if not holder or ended(holder) then
    return answer('not held')
end
record[REVOKED] = '1'
redis.call('SADD', revoked_key(pool, holder), resource)
keep(pool, { resource }, { record })
return answer('marked')
