-- A tombstone by a listener's verdict: only if the beat is still the one that was heard in this era.
-- Own arguments: 1 id, 2 beat heard, 3 era.
local found = session(arg(1))
if found and found.ended then
    return answer('ended')
end
if era.frozen then
    return answer('frozen')
end
local stands = standing(arg(3))
if stands == 'unknown' then
    freeze()
    return answer('frozen')
end
if not found then
    return answer('absent')
end
if stands == 'present' and found.beat == arg(2) then
    entomb(found)
    return answer('ended')
end
return answer('alive', found.beat)
