-- Incidents with a repair, and the different causes that their episodes had recorded
-- before the first one. Each cause is counted with the record that first named it.
WITH fix AS (
  SELECT episode, min(seq) AS seq FROM call
  WHERE observer AND status <> 'denied' AND tool IN (SELECT tool FROM repair) AND NOT imported GROUP BY episode),
named AS (
  SELECT h.episode, a.value ->> '$.id' AS cause, h.seq FROM held h, json_each(h.data, '$.alternatives') a
  UNION ALL
  SELECT c.episode, a.value, c.seq FROM claim c, json_each(c.data, '$.competing_ids') a),
first AS (
  SELECT n.episode, n.cause, min(n.seq) AS seq FROM named n JOIN fix f ON f.episode = n.episode AND n.seq < f.seq
  WHERE n.seq NOT IN imported GROUP BY n.episode, n.cause)
SELECT 'denominator' AS role, i.episode AS item, f.seq, 1 AS n, i.seq AS of FROM incident i JOIN fix f USING (episode)
UNION ALL
SELECT 'numerator', i.episode, n.seq, count(*), i.seq FROM incident i JOIN first n USING (episode) GROUP BY i.episode, n.seq
