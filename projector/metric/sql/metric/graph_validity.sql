-- Edges of the census on which two blind raters agree, and those that are causal claims.
WITH decided AS (
  SELECT j.* FROM census c JOIN asked USING (namespace) JOIN drawn d ON d.sample = c.sample JOIN judged j ON j.namespace = c.namespace AND j.id = d.id)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM decided
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM decided WHERE is_causal
