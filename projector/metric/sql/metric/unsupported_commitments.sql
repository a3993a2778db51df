-- Audited claims and predictions, and those that their evidence does not bear.
WITH audited AS (SELECT * FROM labelled WHERE question = 'commitment_supported' AND kind IN ('claim', 'prediction') AND says IS NOT NULL)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM audited
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM audited WHERE NOT says
