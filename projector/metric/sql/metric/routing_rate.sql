-- Opportunities, and those that led to a causal tool or to the graph.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM opportunity
UNION ALL
SELECT 'numerator', o.id, r.seq, 1, o.seq FROM opportunity o JOIN route r USING (id) WHERE r.leads_to IN ('causal_tool', 'graph')
