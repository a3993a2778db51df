-- Shadow tokens of each finding that was withheld for the holdout.
SELECT 'numerator' AS role, id AS item, seq, data ->> '$.shadow_tokens' AS n, seq AS of FROM refers
WHERE type = 'finding.withheld' AND observer AND namespace = (SELECT namespace FROM asked)
  AND data ->> '$.cause' = 'holdout' AND data ->> '$.shadow_tokens' IS NOT NULL
