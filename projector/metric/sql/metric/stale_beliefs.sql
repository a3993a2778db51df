-- Claims that are asserted now, and those that a verdict or the latest recheck refuted.
WITH held_now AS (
  SELECT c.id, c.seq FROM claim c WHERE (SELECT t.status FROM standing t WHERE t.id = c.id ORDER BY t.seq DESC LIMIT 1) = 'asserted')
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM held_now
UNION ALL
SELECT 'numerator', h.id, p.refuted, 1, h.seq FROM held_now h JOIN past p USING (id) WHERE p.refuted IS NOT NULL
