-- Incidents, and what was used in their episodes. One unknown part makes the value
-- unknown.
SELECT 'denominator' AS role, episode AS item, seq, 1 AS n, seq AS of FROM incident
UNION ALL
SELECT CASE WHEN c.nano_usd IS NULL THEN 'unknown' ELSE 'numerator' END, i.episode, c.seq, c.nano_usd, i.seq FROM incident i JOIN costs c USING (episode)
