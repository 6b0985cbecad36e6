-- Frees terms if exactly this holder has them under exactly these tokens.
-- Own arguments: 1 id, 2 era, 3 number, 4 confirmed; then resource, token, successor and load, again and again.
local found, refused = meet(arg(1), arg(2), arg(4))
if not found then
    return answer(refused)
end
-- First everything is decided, then everything is written.
local resources, gone, outcomes, freed = {}, {}, {}, {}
for place = 5, #ARGV - 9, 4 do
    resources[#resources + 1] = arg(place)
end
local known = records(found.pool, resources)
for place = 5, #ARGV - 9, 4 do
    local resource = arg(place)
    if not gone[resource] and holder_by(known[#outcomes + 1], arg(place + 1)) == found.id then
        gone[resource] = true
        freed[#freed + 1] = { resource, arg(place + 2), arg(place + 3) }
        outcomes[#outcomes + 1] = 1
    else
        outcomes[#outcomes + 1] = 0
    end
end
raise(found, arg(3))
clear(found.pool, found.id, freed)
return answer('done', outcomes)
