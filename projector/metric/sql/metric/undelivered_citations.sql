-- Pieces of evidence that claims cite or pin, each once a claim, and those that nothing
-- had delivered before.
WITH cited AS (
  SELECT c.id, c.seq, e.value AS piece FROM claim c, json_each(c.data, '$.evidence_ids') e
  UNION
  SELECT c.id, c.seq, e.value ->> '$.evidence_id' FROM claim c, json_each(c.data, '$.evidence_snapshots') e)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM cited
UNION ALL
SELECT 'numerator', c.id, c.seq, 1, c.seq FROM cited c WHERE NOT EXISTS (SELECT 1 FROM delivered d WHERE d.id = c.piece AND d.seq < c.seq)
