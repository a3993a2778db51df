-- Experiments that were run, and those for which claims that were live at the proposal
-- predict different outcomes.
WITH ran AS (SELECT x.id, x.intended, x.seq, t.data FROM carried_out x JOIN thing t ON t.kind = x.kind AND t.seq = x.intended WHERE x.kind = 'experiment'),
predicted AS (
  SELECT r.id, e.value ->> '$.outcome' AS outcome,
         (SELECT s.status FROM standing s WHERE s.id = e.value ->> '$.claim_id' AND s.seq < r.intended ORDER BY s.seq DESC LIMIT 1) AS status
  FROM ran r, json_each(r.data, '$.predicted') e)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, intended AS of FROM ran
UNION ALL
SELECT 'numerator', id, intended, 1, intended FROM ran
WHERE (SELECT count(DISTINCT outcome) FROM predicted p WHERE p.id = ran.id AND status IN ('asserted', 'hypothesis')) > 1
