-- A tombstone by the holder's own word, in a frozen store too. Own arguments: 1 id.
local found = session(arg(1))
if found and not found.ended then
    entomb(found)
end
return answer('done', found and found.pool == mirrored_pool and 1 or 0)
