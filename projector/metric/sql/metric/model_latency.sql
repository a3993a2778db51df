-- The latency in microseconds of each message and job that usage.recorded tells of, where
-- it is known.
SELECT 'numerator' AS role, item, seq, latency_us AS n, seq AS of FROM spent WHERE NOT is_call AND latency_us IS NOT NULL
