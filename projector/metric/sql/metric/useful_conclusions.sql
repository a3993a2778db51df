-- Useful conclusions, each of the week of its confirmation.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM useful
