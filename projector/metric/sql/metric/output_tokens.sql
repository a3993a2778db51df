-- The output tokens of everything that counts as usage, where they are known.
SELECT 'numerator' AS role, item, seq, output AS n, seq AS of FROM spent WHERE output IS NOT NULL
