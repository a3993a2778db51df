-- The age in whole seconds of contradictions that are neither resolved nor scoped.
SELECT 'numerator' AS role, c.id AS item, c.seq, max(0, (SELECT now FROM clock) - c.at) / 1000000000 AS n, c.seq AS of
FROM conflict c JOIN stands s USING (id) WHERE s.open AND c.id NOT IN duplicate
