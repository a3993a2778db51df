-- Eligible cases and the detected ones among them, each for as many as it stands for.
-- Without a labelled turn in which nothing was found there is no recall.
SELECT 'denominator' AS role, id AS item, by AS seq, weight AS n, seq AS of FROM sifted WHERE says AND EXISTS (SELECT 1 FROM sifted WHERE NOT found)
UNION ALL
SELECT 'numerator', id, seq, weight, seq FROM sifted WHERE says AND found AND EXISTS (SELECT 1 FROM sifted WHERE NOT found)
