-- Contradictions that were ever closed, and those closed on nothing or not for good.
SELECT 'denominator' AS role, contradiction_id AS item, seq, 1 AS n, seq AS of FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL AND closed_seq IS NOT NULL
UNION ALL
SELECT 'numerator', contradiction_id, seq, 1, seq FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL AND closed_seq IS NOT NULL AND false_closings > 0
