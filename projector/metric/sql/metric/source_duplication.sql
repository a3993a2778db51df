-- Claims that cite two pieces or more whose content was delivered before, and those of
-- which two pieces have one content.
WITH piece AS (
  SELECT DISTINCT c.id, c.seq, e.value AS evidence, d.data ->> '$.sha256' AS content FROM claim c, json_each(c.data, '$.evidence_ids') e
  JOIN ev d ON d.type = 'evidence.delivered' AND d.observer AND d.namespace = (SELECT namespace FROM asked) AND d.data ->> '$.evidence_id' = e.value AND d.seq < c.seq),
cites AS (SELECT id, seq FROM piece GROUP BY id HAVING count(DISTINCT evidence) > 1)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM cites
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM cites WHERE id IN (SELECT id FROM piece GROUP BY id, content HAVING count(DISTINCT evidence) > 1)
