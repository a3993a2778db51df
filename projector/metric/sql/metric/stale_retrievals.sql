-- Reads of beliefs that somebody had recorded, and the stale ones.
SELECT 'denominator' AS role, belief_id AS item, seq, 1 AS n, seq AS of FROM belief_reads
WHERE namespace = (SELECT namespace FROM asked) AND status <> 'unknown'
UNION ALL
SELECT 'numerator', belief_id, seq, 1, seq FROM belief_reads
WHERE namespace = (SELECT namespace FROM asked) AND status <> 'unknown' AND stale_by_seq IS NOT NULL
