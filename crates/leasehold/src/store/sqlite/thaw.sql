-- Decides who is over after a freeze: every session that did not reassert under its nonce.
UPDATE sessions SET ended = 1, changed = :seq
WHERE ended = 0 AND reasserted IS NOT :nonce;
