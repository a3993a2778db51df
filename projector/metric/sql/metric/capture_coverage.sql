-- Tool calls that anybody told of, and those that the dispatcher saw.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM call
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM call WHERE observer
