-- Proposed experiments, and those that were run.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM thing WHERE kind = 'experiment' AND namespace = (SELECT namespace FROM asked)
UNION ALL
SELECT 'numerator', id, seq, 1, intended FROM carried_out WHERE kind = 'experiment'
