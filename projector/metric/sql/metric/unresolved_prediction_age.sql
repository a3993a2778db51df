-- The age in whole seconds of predictions that are open or unresolved.
SELECT 'numerator' AS role, id AS item, predicted AS seq, max(0, (SELECT now FROM clock) - at) / 1000000000 AS n, predicted AS of
FROM verdict WHERE decided IS NOT 1 AND verdict IS NOT 'void'
