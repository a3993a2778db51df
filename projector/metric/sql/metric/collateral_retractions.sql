-- Claims that were retracted, and those that had been confirmed and never contradicted.
WITH retracted AS (
  SELECT t.id, min(t.seq) AS seq FROM standing t JOIN claim c ON c.id = t.id AND c.seq < t.seq
  WHERE t.status = 'retracted' AND c.seq NOT IN imported GROUP BY t.id)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM retracted
UNION ALL
SELECT 'numerator', r.id, p.confirmed, 1, r.seq FROM retracted r JOIN past p USING (id) WHERE p.refuted IS NULL AND p.confirmed <= r.seq
