-- Tool calls, each id once, but for those that were denied.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM call WHERE status <> 'denied'
