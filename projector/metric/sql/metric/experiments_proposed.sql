-- Proposed experiments.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM thing WHERE kind = 'experiment' AND namespace = (SELECT namespace FROM asked)
