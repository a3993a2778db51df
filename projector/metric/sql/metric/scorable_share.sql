-- Predictions with a verdict, and those that may be scored.
SELECT 'denominator' AS role, id AS item, predicted AS seq, 1 AS n, predicted AS of FROM verdict WHERE decided
UNION ALL
SELECT 'numerator', id, by, 1, predicted FROM verdict WHERE decided AND scored
