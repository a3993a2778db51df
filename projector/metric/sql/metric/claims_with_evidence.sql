-- Claims of a causal edge, and those that cite evidence.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM claim WHERE is_edge
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM claim WHERE is_edge AND json_array_length(data, '$.evidence_ids') > 0
