-- Useful conclusions by opportunities.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM useful
UNION ALL
SELECT 'denominator', id, seq, 1, seq FROM opportunity
