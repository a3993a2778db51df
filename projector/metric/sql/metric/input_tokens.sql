-- The input tokens of everything that counts as usage, where they are known.
SELECT 'numerator' AS role, item, seq, input AS n, seq AS of FROM spent WHERE input IS NOT NULL
