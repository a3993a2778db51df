-- Tokens of each delivery of a finding.
SELECT 'numerator' AS role, id AS item, seq, tokens AS n, seq AS of FROM delivery WHERE tokens IS NOT NULL
