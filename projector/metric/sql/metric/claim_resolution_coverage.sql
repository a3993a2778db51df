-- Claims older than seven days, and those that a prediction settled.
WITH old AS (SELECT * FROM claim WHERE at < (SELECT now FROM clock) - 7 * 86400 * 1000000000)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM old
UNION ALL
SELECT 'numerator', old.id, p.settled, 1, old.seq FROM old JOIN past p USING (id) WHERE p.settled IS NOT NULL
