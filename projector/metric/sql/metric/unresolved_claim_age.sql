-- The age in whole seconds of claims that no prediction settled.
SELECT 'numerator' AS role, c.id AS item, c.seq, max(0, (SELECT now FROM clock) - c.at) / 1000000000 AS n, c.seq AS of
FROM claim c JOIN past p USING (id) WHERE p.settled IS NULL
