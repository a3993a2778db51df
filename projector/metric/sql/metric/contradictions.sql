-- Detected contradictions, each pair once while one of it is open.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM conflict WHERE id NOT IN duplicate
