-- What each usage was reported to cost.
SELECT 'numerator' AS role, item, seq, charged AS n, seq AS of FROM spent WHERE charged IS NOT NULL
