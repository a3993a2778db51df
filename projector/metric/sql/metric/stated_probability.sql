-- p of each scorable prediction with a verdict, in billionths.
SELECT 'numerator' AS role, id AS item, by AS seq, CAST(round(p * 1e9) AS INTEGER) AS n, predicted AS of FROM verdict WHERE decided AND scored
