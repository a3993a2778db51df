-- Findings that were written, and those with the claim of an earlier one.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM finding
UNION ALL
SELECT 'numerator', f.id, f.seq, 1, f.seq FROM finding f WHERE EXISTS (SELECT 1 FROM finding e WHERE e.claim = f.claim AND e.seq < f.seq)
