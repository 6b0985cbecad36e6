-- Keeps what the transaction made of the era: a new `seq`, and perhaps a freeze, a thaw or a longer TTL.
UPDATE era
SET identity = :identity, nonce = :nonce, frozen = :frozen, token_base = :token_base,
    ttl_max_ms = :ttl_max_ms, seq = :seq
WHERE one = 1;
