-- The cached tokens of everything that counts as usage, where they are known.
SELECT 'numerator' AS role, item, seq, cached AS n, seq AS of FROM spent WHERE cached IS NOT NULL
