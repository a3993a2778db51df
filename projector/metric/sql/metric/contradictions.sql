-- Detected contradictions, each pair once while one of it is open.
SELECT 'numerator' AS role, contradiction_id AS item, seq, 1 AS n, seq AS of FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL
