-- Drops the oldest lines of a ledger that has grown past its bound, a few at a time. The limit is not the bare parameter: that would have
-- the statement planned anew whenever it is bound.
DELETE FROM ledger WHERE line IN (
    SELECT line FROM ledger WHERE line <= (SELECT seq FROM sqlite_sequence WHERE name = 'ledger') - :keep
    ORDER BY line LIMIT :step + 0
);
