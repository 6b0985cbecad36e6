-- Which memory this is. Read first in every transaction, so that what follows is judged in the same instant.
SELECT identity, nonce, frozen, token_base, ttl_max_ms, seq FROM era WHERE one = 1;
