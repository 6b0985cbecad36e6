-- Raises a living session's beat: the same few steps whatever it holds.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
raise(found, arg(3))
show_node(found.pool, found.id, found.ttl)
return answer('done', found.pool == mirrored_pool and 1 or 0, revoked_terms(found.pool, found.id))
