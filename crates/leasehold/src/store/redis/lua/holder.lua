-- Whether a session is there, who has a resource that it would claim, a foreigner too, and under which token; or why
-- nothing can be claimed. Own arguments: 1 id, 2 pool, 3 resource.
local found, pool, resource = session(arg(1)), arg(2), arg(3)
if found and found.ended then
    return answer('gone')
end
if era.frozen then
    return answer('frozen')
end
pool = found and found.pool or pool
local record = records(pool, { resource })[1] or { '0', '' }
local token, holder = record[TOKEN], record[HOLDER]
local other = foreigner(pool, resource, holder)
if not other and holder ~= '' and not ended(holder) then
    other = holder
end
return answer('done', found and '1' or '0', other or '', token)
