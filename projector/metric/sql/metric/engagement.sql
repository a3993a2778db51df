-- What warranted an abduction, and those that one names, or that one which names
-- nothing followed in the opportunity's episode.
WITH warranted AS (
  SELECT * FROM labelled WHERE question = 'abduction_warranted' AND kind IN ('opportunity', 'turn') AND says),
entered AS (SELECT * FROM abduction WHERE seq NOT IN imported),
named AS (SELECT w.id, w.kind, min(e.seq) AS seq FROM warranted w JOIN entered e ON w.id IN (e.question, e.opportunity) GROUP BY w.id, w.kind),
after AS (
  SELECT w.id, w.kind, min(e.seq) AS seq FROM warranted w JOIN entered e ON e.episode = w.episode AND e.seq > w.thing
  WHERE w.kind = 'opportunity' AND w.episode <> '' AND e.question IS NULL AND e.opportunity IS NULL GROUP BY w.id)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM warranted
UNION ALL
SELECT 'numerator', w.id, coalesce(n.seq, a.seq), 1, w.seq FROM warranted w LEFT JOIN named n USING (id, kind) LEFT JOIN after a USING (id, kind)
WHERE coalesce(n.seq, a.seq) IS NOT NULL
