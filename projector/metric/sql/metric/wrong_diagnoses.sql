-- Scored diagnoses of which the outcome is known, or to which no answer could be read, and
-- those that name another cause than the true one.
WITH diagnosis AS (SELECT *, data ->> '$.status' = 'parsed' AS is_read FROM marked WHERE is_diagnosis)
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of, part FROM diagnosis WHERE NOT is_read OR outcome IS NOT NULL
UNION ALL
SELECT 'numerator', item, by, 1, seq, part FROM diagnosis WHERE is_read AND outcome IN ('wrong', 'consistent_unjustified')
