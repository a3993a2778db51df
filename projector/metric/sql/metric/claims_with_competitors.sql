-- Claims of a causal edge, and those that name a competitor, else whose latest set of
-- alternatives has two or more: the set that names the claim, else the opportunity that
-- it answers, else that of the episode, as they stood before the claim. What was imported
-- stands before nothing.
WITH seen AS (SELECT * FROM held WHERE seq NOT IN imported),
sets AS (
  SELECT c.id, coalesce(
    (SELECT max(h.seq) FROM seen h WHERE h.claim = c.id AND h.seq < c.seq),
    (SELECT max(h.seq) FROM seen h WHERE h.question = c.opportunity AND h.seq < c.seq),
    (SELECT max(h.seq) FROM seen h WHERE h.episode = c.episode AND h.episode <> '' AND h.seq < c.seq)) AS set_seq
  FROM claim c WHERE is_edge)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM claim WHERE is_edge
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM claim WHERE is_edge AND json_array_length(data, '$.competing_ids') > 0
UNION ALL
SELECT 'numerator', c.id, h.seq, 1, c.seq FROM claim c JOIN sets s USING (id) JOIN held h ON h.seq = s.set_seq
WHERE h.n >= 2 AND coalesce(json_array_length(c.data, '$.competing_ids'), 0) = 0
