-- Cases of the condition in which causes were withheld, and the hits.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM control WHERE condition = 'C0'
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM control WHERE condition = 'C0' AND outcome = 'hit'
