-- Experiments that were run with a predicted and an observed outcome, and those whose
-- outcome is one of the predicted.
WITH observed AS (
  SELECT id, min(seq) AS seq, imported, data ->> '$.observed' AS outcome FROM refers
  WHERE type = 'experiment.observed' AND role = 'resolver' AND namespace = (SELECT namespace FROM asked) GROUP BY id),
seen AS (
  SELECT x.id, x.intended, o.seq, t.data, o.outcome FROM carried_out x JOIN thing t ON t.kind = x.kind AND t.seq = x.intended JOIN observed o ON o.id = x.id
  WHERE x.kind = 'experiment' AND json_array_length(t.data, '$.predicted') > 0 AND NOT o.imported)
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, intended AS of FROM seen
UNION ALL
SELECT 'numerator', id, seq, 1, intended FROM seen WHERE EXISTS (SELECT 1 FROM json_each(data, '$.predicted') e WHERE e.value ->> '$.outcome' = outcome)
