-- Frees somebody else's term. Own arguments: 1 pool, 2 resource, 3 token, 4 era, 5 holder.
-- Without a holder it must have been revoked; with one, exactly that one holds it and its session is absent.
if era.frozen then
    return answer('frozen')
end
local stands = standing(arg(4))
if stands == 'unknown' then
    freeze()
    return answer('frozen')
end
local pool, resource = arg(1), arg(2)
local holder, revoked = holder_of(pool, resource, arg(3))
local may = holder and stands == 'present'
if may and arg(5) == '' then
    may = revoked
elseif may then
    may = holder == arg(5) and redis.call('EXISTS', session_key(holder)) == 0
end
if not may then
    return answer('changed')
end
clear(pool, holder, { { resource } })
return answer('freed')
