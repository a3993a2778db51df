-- Abductions that were started, and those whose first end is a result.
WITH ended AS (
  SELECT data ->> '$.abduction_id' AS id, min(seq) AS seq, type FROM ev
  WHERE type IN ('abduction.completed', 'abduction.failed') AND role = 'agent' AND namespace = (SELECT namespace FROM asked) GROUP BY 1)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM abduction
UNION ALL
SELECT 'numerator', a.id, e.seq, 1, a.seq FROM abduction a JOIN ended e USING (id) WHERE e.type = 'abduction.completed'
