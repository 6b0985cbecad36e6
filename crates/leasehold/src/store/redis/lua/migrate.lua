-- Writes the first era. One that is there stays as it is. Own arguments: 1 '1' if it begins frozen.
if era.known then
    return answer('found', whole(version), redis.call('HGET', era_key, 'leftover') or '0')
end
era.identity, era.nonce, era.known = live, ARGV[8], true
era.frozen = arg(1) == '1'
era.ttl_max = era.frozen and tonumber(ARGV[9]) or 0
era.seq = 1
write_era()
tell_all()
return answer('created')
