-- Messages and jobs of which it is known, and those outside of any turn.
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of FROM spent WHERE NOT is_call AND data ->> '$.background' IS NOT NULL
UNION ALL
SELECT 'numerator', item, seq, 1, seq FROM spent WHERE NOT is_call AND data ->> '$.background'
