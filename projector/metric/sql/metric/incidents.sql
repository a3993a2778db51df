-- Episodes with an opportunity of kind root_cause or which_fix.
SELECT 'numerator' AS role, episode AS item, seq, 1 AS n, seq AS of FROM incident
