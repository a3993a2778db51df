-- Episodes of the sandbox of which it was recorded how they ended, and those that ended
-- well.
WITH ended AS (SELECT *, coalesce(data ->> '$.arm', 'no arm') AS part, data ->> '$.success' AS success FROM reported WHERE namespace = 'sandbox' AND data ->> '$.success' IS NOT NULL)
SELECT 'denominator' AS role, episode AS item, seq, 1 AS n, seq AS of, part FROM ended
UNION ALL
SELECT 'numerator', episode, seq, 1, seq, part FROM ended WHERE success
