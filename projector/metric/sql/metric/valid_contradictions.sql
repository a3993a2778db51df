-- Contradictions of which raters without a part in them agree, and the valid ones. A
-- rubric does not matter here: one rater who differs under any is enough.
WITH part AS (
  SELECT id, principal FROM thing WHERE kind = 'contradiction' AND namespace = (SELECT namespace FROM asked)
  UNION ALL
  SELECT t.id, e.principal FROM thing t JOIN ev e ON e.data ->> '$.contradiction_id' = t.id AND e.seq > t.seq
  WHERE t.kind = 'contradiction' AND t.namespace = (SELECT namespace FROM asked) AND e.role IN ('agent', 'operator')
    AND e.type IN ('contradiction.detected', 'contradiction.owned', 'contradiction.investigated', 'contradiction.resolved', 'contradiction.scoped', 'contradiction.unresolved')),
said AS (
  SELECT l.id, min(l.data ->> '$.contradiction_valid') AS least, max(l.data ->> '$.contradiction_valid') AS most FROM label l
  WHERE l.kind = 'contradiction' AND l.known AND NOT EXISTS (SELECT 1 FROM part p WHERE p.id = l.id AND p.principal = l.principal) GROUP BY l.id)
SELECT 'denominator' AS role, c.contradiction_id AS item, c.seq, 1 AS n, c.seq AS of FROM contradictions c JOIN said s ON s.id = c.contradiction_id
WHERE c.namespace = (SELECT namespace FROM asked) AND c.duplicate_of IS NULL AND s.least = s.most
UNION ALL
SELECT 'numerator', c.contradiction_id, c.seq, 1, c.seq FROM contradictions c JOIN said s ON s.id = c.contradiction_id
WHERE c.namespace = (SELECT namespace FROM asked) AND c.duplicate_of IS NULL AND s.least = 1
