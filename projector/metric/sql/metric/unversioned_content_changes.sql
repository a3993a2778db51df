-- Changes of content that are known to have had a version or none, and the silent ones.
SELECT 'denominator' AS role, belief_id AS item, seq, 1 AS n, seq AS of FROM content_changes
WHERE namespace = (SELECT namespace FROM asked) AND versioned IS NOT NULL
UNION ALL
SELECT 'numerator', belief_id, seq, 1, seq FROM content_changes WHERE namespace = (SELECT namespace FROM asked) AND versioned = 0
