-- The share of competing hypotheses that the evidence had ruled out, in millionths, of each
-- scored response of which it is known.
SELECT 'numerator' AS role, item, by AS seq, CAST(round(strawman * 1e6) AS INTEGER) AS n, seq AS of, part FROM marked WHERE strawman BETWEEN 0 AND 1
