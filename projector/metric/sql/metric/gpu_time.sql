-- GPU time in microseconds of each message and job that usage.recorded tells of, where it
-- is known.
SELECT 'numerator' AS role, item, seq, CAST(round(data ->> '$.gpu_seconds' * 1e6) AS INTEGER) AS n, seq AS of
FROM spent WHERE NOT is_call AND data ->> '$.gpu_seconds' IS NOT NULL
