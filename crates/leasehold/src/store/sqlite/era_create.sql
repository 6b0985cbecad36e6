-- The first era of a new file: live if nobody here can remember an older one, otherwise frozen.
INSERT INTO era (one, identity, nonce, frozen, token_base, ttl_max_ms, seq)
VALUES (1, :identity, :nonce, :frozen, :token_base, :ttl_max_ms, :seq);
