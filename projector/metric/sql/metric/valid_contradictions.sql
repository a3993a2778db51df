-- Contradictions of which raters without a part in them agree, and the valid ones.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM conflict JOIN genuine USING (id) WHERE id NOT IN duplicate
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM conflict JOIN genuine USING (id) WHERE id NOT IN duplicate AND is_valid
