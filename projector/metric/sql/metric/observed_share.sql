-- Scorable predictions with a verdict, and the confirmed ones.
SELECT 'denominator' AS role, id AS item, predicted AS seq, 1 AS n, predicted AS of FROM verdict WHERE decided AND scored
UNION ALL
SELECT 'numerator', id, by, 1, predicted FROM verdict WHERE decided AND scored AND verdict = 'confirmed'
