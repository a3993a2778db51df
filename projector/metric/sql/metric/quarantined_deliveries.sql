-- Deliveries of findings, and those of a finding that was quarantined before.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM delivery
UNION ALL
SELECT 'numerator', d.id, d.seq, 1, d.seq FROM delivery d JOIN quarantined q ON q.id = d.id AND q.seq < d.seq
