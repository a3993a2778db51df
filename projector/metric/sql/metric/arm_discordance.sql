-- Clusters in which one arm is right each time and the other never, and those in which the
-- first is right.
WITH differ AS (SELECT * FROM pair WHERE kind = 'scores' AND (name = 'correct' OR name GLOB '* correct') AND right_a <> right_b)
SELECT 'denominator' AS role, cluster AS item, seq, 1 AS n, seq AS of, part FROM differ
UNION ALL
SELECT 'numerator', cluster, seq, 1, seq, part FROM differ WHERE right_a
