-- What everything that was used cost, and useful conclusions. One unknown part makes the
-- value unknown.
SELECT CASE WHEN nano_usd IS NULL THEN 'unknown' ELSE 'numerator' END AS role, item, seq, nano_usd AS n, seq AS of FROM costs
UNION ALL
SELECT 'denominator', id, seq, 1, seq FROM useful
