-- Drops the oldest lines of a ledger that has grown past its bound, a few at a time.
DELETE FROM ledger WHERE line IN (
    SELECT line FROM ledger WHERE line <= (SELECT seq FROM sqlite_sequence WHERE name = 'ledger') - :keep
    ORDER BY line LIMIT :step
);
