-- Findings that were written, and those with two harmful ratings.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM finding
UNION ALL
SELECT 'numerator', f.id, q.seq, 1, f.seq FROM finding f JOIN quarantined q USING (id)
