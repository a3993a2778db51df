-- Cases of the control conditions in which there is nothing to find, and the hits.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM control WHERE condition IN ('C4', 'C5')
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM control WHERE condition IN ('C4', 'C5') AND outcome = 'hit'
