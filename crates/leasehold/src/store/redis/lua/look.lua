-- Looks whether foreigners still have what was noted as theirs. Own arguments: 1 pool; then resources.
local pool = arg(1)
if era.frozen then
    return answer('frozen')
end
local outcomes, changed = {}, {}
for place = 2, #ARGV - 9 do
    local resource = arg(place)
    local record = records(pool, { resource })[1] or {}
    local holder, noted = record[HOLDER] or '', record[FOREIGN] or ''
    local other = foreigner(pool, resource, holder)
    outcomes[#outcomes + 1] = other
            and { resource, other, record[TOKEN] or '0', redis.call('PTTL', mirror_key(resource)) }
        or { resource }
    if holder == '' and noted ~= (other or '') then
        changed[#changed + 1] = { resource, other or '', record }
    end
end
note(pool, changed)
return answer('done', outcomes)
