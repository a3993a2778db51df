-- Pieces of evidence that an answer cites, each once, where it is known what was
-- delivered, and those that were not.
WITH cited AS (
  SELECT DISTINCT t.item, t.seq, t.part, t.data, e.value AS piece FROM trial t, json_each(t.data, '$.answer.evidence_ids') e WHERE t.data ->> '$.delivered_ids' IS NOT NULL)
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of, part FROM cited
UNION ALL
SELECT 'numerator', item, seq, 1, seq, part FROM cited c WHERE piece NOT IN (SELECT d.value FROM json_each(c.data, '$.delivered_ids') d)
