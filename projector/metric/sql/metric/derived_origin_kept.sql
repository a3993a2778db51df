-- Steps whose outcome rests on something derived, and those still called derived.
SELECT 'denominator' AS role, belief_id AS item, seq, 1 AS n, seq AS of FROM lineage_steps
WHERE namespace = (SELECT namespace FROM asked) AND derived AND origin_kept IS NOT NULL
UNION ALL
SELECT 'numerator', belief_id, seq, 1, seq FROM lineage_steps WHERE namespace = (SELECT namespace FROM asked) AND derived AND origin_kept
