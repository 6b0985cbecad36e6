-- Freezes the store if it has forgotten something: it has no record of its era, it is another server than the record
-- says, it was set back behind what this handle has seen, or it never had the era that this handle lived through.
do
    local mine
    if ARGV[5] ~= '' then
        mine = { nonce = ARGV[5], seq = tonumber(ARGV[6]), ttl_max = tonumber(ARGV[7]) }
    end
    local forgotten = not era.known or era.identity ~= live
    if mine and not forgotten then
        if mine.nonce == era.nonce then
            forgotten = era.seq < mine.seq
        elseif not era.frozen then
            -- A store that is frozen already was noticed by somebody else.
            forgotten = not had(mine.nonce)
        end
    end
    if mine and (forgotten or era.frozen) then
        if forgotten and era.seq < mine.seq then
            era.seq = mine.seq
        end
        -- Whoever thaws must wait for everybody that anybody remembers.
        if era.ttl_max < mine.ttl_max then
            era.ttl_max = mine.ttl_max
            if not forgotten then
                write_era()
            end
        end
        if mine.nonce ~= era.nonce and not had(mine.nonce) then
            redis.call('SADD', past_key, mine.nonce)
        end
    end
    if forgotten then
        freeze()
    end
end
