-- Claims, and those of a causal edge with its rung.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM claim
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM claim WHERE rung <> ''
