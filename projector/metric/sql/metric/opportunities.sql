-- Each opportunity that the detector found.
SELECT 'numerator' AS role, id AS item, seq, 1 AS n, seq AS of FROM opportunity
