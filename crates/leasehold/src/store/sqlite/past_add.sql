-- Remembers an era that is over: whoever still lives in it has slept through a thaw.
INSERT INTO past_eras (nonce) VALUES (:nonce) ON CONFLICT (nonce) DO NOTHING;
