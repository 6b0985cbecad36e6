-- Decides who is over after a freeze: every session that did not reassert under its nonce. Tokens go on above every one
-- that may have been forgotten. Own arguments: 1 nonce, 2 token base.
if not era.frozen or era.nonce ~= arg(1) then
    return answer('changed')
end
for _, pool in ipairs(redis.call('SMEMBERS', pools_key)) do
    for _, id in ipairs(redis.call('ZRANGE', sessions_key(pool), 0, -1)) do
        local found = session(id)
        if found and not found.ended and found.reasserted ~= era.nonce then
            redis.call('HSET', session_key(id), 'ended', '1')
            touch(pool, id)
        end
    end
end
step()
era.frozen = false
era.token_base = math.max(era.token_base, tonumber(arg(2)))
write_era()
tell_all()
return answer('thawed')
