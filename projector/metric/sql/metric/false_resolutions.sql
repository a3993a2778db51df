-- Contradictions that were ever closed, and those closed on nothing or not for good.
WITH closed AS (SELECT id, max(failed) AS failed FROM closing GROUP BY id)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM conflict JOIN closed USING (id) WHERE id NOT IN duplicate
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM conflict JOIN closed USING (id) WHERE id NOT IN duplicate AND failed
