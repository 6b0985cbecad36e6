-- Tells what was found out under terms, each if its term stands and its holder has not ended. In a frozen store nothing stands
-- that was not said again.
-- Own arguments: 1 pool; then for each: resource, token, holder, kind, channel or key, how many a stream keeps, what.
local pool, lives = arg(1), {}

-- As a rule all are of one holder.
local function may_speak(holder)
    if lives[holder] == nil then
        local found = redis.call('HMGET', session_key(holder), 'ended', 'reasserted')
        lives[holder] = found[1] ~= '1' and (not frozen or found[2] == nonce)
    end
    return lives[holder]
end

local function stands(resource, token, holder)
    return holder_of(pool, resource, token) == holder and may_speak(holder) and not foreigner(pool, resource, holder)
end

local said = {}
for at = 2, #ARGV - 9, 7 do
    local resource, token, holder, outlet, what = arg(at), arg(at + 1), arg(at + 2), arg(at + 4), arg(at + 6)
    if not stands(resource, token, holder) then
        said[#said + 1] = 'stale'
    else
        if arg(at + 3) == 'stream' then
            redis.call('XADD', outlet, 'MAXLEN', '~', arg(at + 5), '*', 'id', resource, 'token', token,
                'instance', holder, 'result', what)
        else
            redis.call('PUBLISH', outlet, what)
        end
        said[#said + 1] = 'told'
    end
end
return said
