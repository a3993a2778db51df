-- CPU time in microseconds of each message and job that usage.recorded tells of, where it
-- is known.
SELECT 'numerator' AS role, item, seq, CAST(round(data ->> '$.cpu_seconds' * 1e6) AS INTEGER) AS n, seq AS of
FROM spent WHERE NOT is_call AND data ->> '$.cpu_seconds' IS NOT NULL
