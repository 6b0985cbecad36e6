-- Whether the store ever had this era.
SELECT EXISTS (SELECT 1 FROM past_eras WHERE nonce = :nonce);
