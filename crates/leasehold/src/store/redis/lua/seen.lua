-- The short way, for what is asked very often: whether the server is just what this handle has seen of it. Where it is not,
-- nothing is done, and a script that judges the era is to be called first. Keys and arguments are those of era.lua.
local prefix = ARGV[1]

local function arg(number)
    return ARGV[9 + number]
end

local nonce, frozen, version = ARGV[5], false, 1
do
    local live = string.match(redis.call('INFO', 'replication'), 'role:master.-master_replid:(%w+)')
    local found = redis.call('HMGET', KEYS[1], 'identity', 'nonce', 'seq', 'frozen', 'version')
    version = tonumber(found[5] or '1')
    live = (version > 1 and found[5] .. ' ' or '') .. live
    if version > 2 or found[1] ~= live or found[2] ~= nonce or tonumber(found[3]) < tonumber(ARGV[6]) then
        return { 'unseen' }
    end
    frozen = found[4] == '1'
end
