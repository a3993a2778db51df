-- Responses, and those that could not be read.
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of, part FROM trial
UNION ALL
SELECT 'numerator', item, seq, 1, seq, part FROM trial WHERE data ->> '$.status' <> 'parsed'
