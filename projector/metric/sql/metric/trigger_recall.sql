-- Eligible cases and the routed ones among them, each for as many as it stands for.
SELECT 'denominator' AS role, id AS item, by AS seq, weight AS n, seq AS of FROM sifted WHERE says AND EXISTS (SELECT 1 FROM sifted WHERE NOT found)
UNION ALL
SELECT 'numerator', s.id, s.seq, weight, s.seq FROM sifted s JOIN route r USING (id)
WHERE says AND found AND r.leads_to IN ('causal_tool', 'graph') AND EXISTS (SELECT 1 FROM sifted WHERE NOT found)
