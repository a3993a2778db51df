-- Episodes with an audited commitment of the week, and the unsupported ones.
WITH audited AS (
  SELECT * FROM labelled WHERE question = 'commitment_supported' AND kind IN ('claim', 'prediction') AND says IS NOT NULL AND episode <> ''
   AND seq >= (SELECT first FROM span) AND seq < (SELECT past FROM span)),
ordered AS (SELECT *, row_number() OVER (PARTITION BY episode ORDER BY kind, id) AS place FROM audited)
SELECT 'denominator' AS role, episode AS item, seq, 1 AS n, seq AS of FROM ordered WHERE place = 1
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM audited WHERE NOT says
