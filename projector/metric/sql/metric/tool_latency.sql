-- The latency of tool calls in microseconds, where it is known.
SELECT 'numerator' AS role, id AS item, seq, latency_us AS n, seq AS of FROM call WHERE status <> 'denied' AND latency_us IS NOT NULL
