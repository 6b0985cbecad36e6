-- Frees terms if exactly this holder has them under exactly these tokens.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed; then resource, token, successor and load, again and again.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
raise(found, arg(3))
local outcomes, freed = {}, false
for place = 5, #ARGV - 9, 4 do
    local resource = arg(place)
    if holder_of(found.pool, resource, arg(place + 1)) == found.id then
        clear(found.pool, resource, found.id, arg(place + 2), arg(place + 3))
        outcomes[#outcomes + 1] = 1
        freed = true
    else
        outcomes[#outcomes + 1] = 0
    end
end
if freed then
    tell(found.pool)
end
return answer('done', outcomes)
