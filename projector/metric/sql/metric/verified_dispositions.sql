-- Valid contradictions, and those whose present state rests on evidence. What merely
-- expired rests on none.
WITH valid AS (SELECT id, seq FROM conflict JOIN genuine USING (id) WHERE is_valid AND id NOT IN duplicate)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM valid
UNION ALL
SELECT 'numerator', v.id, s.seq, 1, v.seq FROM valid v JOIN stands s USING (id)
WHERE s.expired IS NOT 1 AND EXISTS (SELECT 1 FROM handled h WHERE h.id = v.id AND h.seq >= s.seq AND h.state = s.state AND h.verified)
