-- Responses with an action to cases in which a query was worth its cost, and those that infer.
WITH stated AS (SELECT *, data ->> '$.answer.action' AS action FROM marked WHERE net_voi > 0 AND data ->> '$.answer.action' IS NOT NULL)
SELECT 'denominator' AS role, item, seq, 1 AS n, seq AS of, part FROM stated
UNION ALL
SELECT 'numerator', item, seq, 1, seq, part FROM stated WHERE action = 'INFER'
