-- Valid contradictions, and those whose present state rests on evidence.
SELECT 'denominator' AS role, contradiction_id AS item, seq, 1 AS n, seq AS of FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL AND valid
UNION ALL
SELECT 'numerator', contradiction_id, state_seq, 1, seq FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL AND valid AND verified
