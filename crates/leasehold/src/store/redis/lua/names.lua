-- Where records are found. The mirrored pool's leases are where clients look that know nothing of Leasehold.
local mirrored_pool, poll = ARGV[3], ARGV[4]

local function session_key(id)
    return prefix .. ':session:' .. id
end

local function mirror_key(resource)
    return poll .. ':lease:' .. resource
end

local function lease_key(pool, resource)
    if pool == mirrored_pool then
        return poll .. ':fence:{' .. mirror_key(resource) .. '}'
    end
    return prefix .. ':' .. pool .. ':lease:' .. resource
end
