-- Runs a command unless a newer term has been here.
--
-- KEYS[1] is where the newest token is kept, which must never expire or be evicted; the other KEYS are those of the command.
-- ARGV[1] is the token, and the rest is the command:
--
--   redis-cli EVAL "$(cat redis.lua)" 2 fence:scene-01 scene-01 42 SET scene-01 '{"objects": []}'
--
-- What it refuses fails with LHSTALE (a newer term) or LHTOKEN (no token). On a cluster all KEYS need the same hash tag.

local token = ARGV[1]
if not token or #token > 16 or not string.match(token, '^[1-9]%d*$') then
    return redis.error_reply('LHTOKEN a write without a token is refused; send that of the lease')
end
local seen = redis.call('GET', KEYS[1])
-- As text, so that no digit is lost.
if seen and (#seen > #token or (#seen == #token and seen > token)) then
    return redis.error_reply('LHSTALE a write under token ' .. token .. ' is refused: token ' .. seen .. ' has been here')
end
if seen ~= token then
    redis.call('SET', KEYS[1], token)
end
return redis.call(unpack(ARGV, 2))
