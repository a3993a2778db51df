-- Predictions older than seven days, and those that telemetry confirmed or refuted.
WITH old AS (SELECT * FROM verdict WHERE at < (SELECT now FROM clock) - 7 * 86400 * 1000000000)
SELECT 'denominator' AS role, id AS item, predicted AS seq, 1 AS n, predicted AS of FROM old
UNION ALL
SELECT 'numerator', id, by, 1, predicted FROM old WHERE decided
