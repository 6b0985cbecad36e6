-- Looks whether foreigners still have what was noted as theirs. Own arguments: 1 pool; then resources.
local pool = arg(1)
if era.frozen then
    return answer('frozen')
end
local outcomes, changed = {}, {}
for place = 2, #ARGV - 9 do
    local resource = arg(place)
    local record = redis.call('HMGET', lease_key(pool, resource), 'token', 'holder', 'foreign')
    local holder, noted = record[2] or '', record[3] or ''
    local other = foreigner(pool, resource, holder)
    outcomes[#outcomes + 1] = other
            and { resource, other, record[1] or '0', redis.call('PTTL', mirror_key(resource)) }
        or { resource }
    if holder == '' and noted ~= (other or '') then
        changed[#changed + 1] = { resource, other or '' }
    end
end
for place, item in ipairs(changed) do
    note(pool, item[1], item[2])
    changed[place] = item[1]
end
touch_leases(pool, changed)
return answer('done', outcomes)
