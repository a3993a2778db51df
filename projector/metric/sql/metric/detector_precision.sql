-- Detected opportunities that were labelled blind, and those that are eligible.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM sifted WHERE found
UNION ALL
SELECT 'numerator', id, by, 1, seq FROM sifted WHERE found AND says
