-- The latency of causal calls that the dispatcher saw, in microseconds.
SELECT 'numerator' AS role, id AS item, seq, latency_us AS n, seq AS of FROM call WHERE status <> 'denied' AND causal AND observer AND latency_us IS NOT NULL
