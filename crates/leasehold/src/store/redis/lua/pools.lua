-- Every pool with a session, a lease or a declared resource.
local pools = {}
for _, pool in ipairs(redis.call('SMEMBERS', pools_key)) do
    local start = prefix .. ':' .. pool .. ':seq:'
    if redis.call('EXISTS', start .. 'sessions', start .. 'leases', start .. 'declared') > 0 then
        pools[#pools + 1] = pool
    end
end
return answer('done', pools)
