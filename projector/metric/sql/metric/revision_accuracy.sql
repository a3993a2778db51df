-- Claims that stood when they were first refuted, and those that were then retracted, or
-- weakened from asserted to hypothesis.
WITH refuted AS (
  SELECT p.id, p.refuted AS seq,
         (SELECT t.status FROM standing t WHERE t.id = p.id AND t.seq < p.refuted ORDER BY t.seq DESC LIMIT 1) AS was
  FROM past p WHERE p.refuted IS NOT NULL AND p.claimed NOT IN imported)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM refuted WHERE was IN ('asserted', 'hypothesis')
UNION ALL
SELECT 'numerator', r.id, min(t.seq), 1, r.seq FROM refuted r JOIN standing t ON t.id = r.id AND t.seq > r.seq
WHERE r.was IN ('asserted', 'hypothesis') AND (t.status = 'retracted' OR r.was = 'asserted' AND t.status = 'hypothesis') GROUP BY r.id
