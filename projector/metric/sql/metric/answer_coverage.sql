-- Responses, and those that answer, or say that there is no answer.
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of, part FROM trial
UNION ALL
SELECT 'numerator', item, seq, 1, seq, part FROM trial WHERE data ->> '$.answer.kind' IN ('answer', 'not_identifiable')
