-- Attempts of each message and job that usage.recorded tells of, where they are known.
SELECT 'numerator' AS role, item, seq, data ->> '$.attempts' AS n, seq AS of FROM spent WHERE NOT is_call AND data ->> '$.attempts' IS NOT NULL
