-- Challenges that called for a revision and whose outcome was told, and the right ones.
WITH required AS (SELECT * FROM labelled WHERE kind = 'challenge' AND question = 'revision_required' AND says),
outcome AS (SELECT * FROM labelled WHERE kind = 'challenge' AND question = 'revision_correct' AND says IS NOT NULL)
SELECT 'denominator' AS role, r.id AS item, r.seq, 1 AS n, r.seq AS of FROM required r JOIN outcome o USING (id)
UNION ALL
SELECT 'numerator', r.id, o.seq, 1, r.seq FROM required r JOIN outcome o USING (id) WHERE o.says
