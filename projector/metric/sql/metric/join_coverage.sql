-- Opportunities that anything followed, and those that it names.
SELECT 'denominator' AS role, o.id AS item, o.seq, 1 AS n, o.seq AS of FROM opportunity o JOIN route r USING (id)
UNION ALL
SELECT 'numerator', o.id, r.seq, 1, o.seq FROM opportunity o JOIN route r USING (id) WHERE r.exact
