-- The age in whole seconds of contradictions that are neither resolved nor scoped.
SELECT 'numerator' AS role, contradiction_id AS item, seq, max(0, (SELECT now FROM clock) - recorded_at_ns) / 1000000000 AS n, seq AS of FROM contradictions
WHERE namespace = (SELECT namespace FROM asked) AND duplicate_of IS NULL AND recorded_state NOT IN ('resolved', 'scoped')
