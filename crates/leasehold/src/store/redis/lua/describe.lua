-- Replaces what a living session publishes about itself, and raises its beat.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed, 5 profile, 6 listing.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
raise(found, arg(3))
redis.call('HSET', session_key(found.id), 'profile', arg(5), 'listing', arg(6))
touch(found.pool, found.id)
tell(found.pool)
return answer('done')
