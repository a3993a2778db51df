-- Canaries that are over, of every namespace, and those that the operator ended. One runs
-- at a time: what was started meanwhile was refused. A rollback counts from its cut on.
-- Those that were imported ran elsewhere, and nothing imported is of a live one.
WITH RECURSIVE live AS (SELECT * FROM ev WHERE NOT imported),
started AS (
  SELECT data ->> '$.canary_id' AS id, min(seq) AS seq FROM live WHERE type = 'canary.started' AND role = 'operator' GROUP BY 1),
ended AS (
  SELECT s.id, min(e.seq) AS seq FROM started s JOIN live e ON e.type = 'canary.ended' AND e.role = 'operator' AND e.data ->> '$.canary_id' = s.id AND e.seq > s.seq GROUP BY 1),
rolled AS (
  SELECT s.id, min(CASE WHEN e.role = 'resolver' THEN min(e.seq, max(s.seq, coalesce(e.data ->> '$.cut_seq', e.seq))) ELSE e.seq END) AS seq
  FROM started s JOIN live e ON e.type = 'rollback.triggered' AND e.role IN ('operator', 'resolver') AND e.data ->> '$.canary_id' = s.id AND e.seq > s.seq GROUP BY 1),
fate AS (
  SELECT s.id, s.seq, e.seq AS ended, r.seq IS NULL OR e.seq < r.seq AS well, min(coalesce(e.seq, r.seq), coalesce(r.seq, e.seq)) AS over
  FROM started s LEFT JOIN ended e USING (id) LEFT JOIN rolled r USING (id)),
ran(id, seq, ended, well, over) AS (
  SELECT * FROM (SELECT * FROM fate ORDER BY seq LIMIT 1)
  UNION ALL
  SELECT f.* FROM ran r JOIN fate f ON f.seq = (SELECT min(n.seq) FROM fate n WHERE n.seq > r.seq AND n.seq >= r.over))
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM ran WHERE over IS NOT NULL
UNION ALL
SELECT 'numerator', id, ended, 1, seq FROM ran WHERE well AND ended IS NOT NULL
