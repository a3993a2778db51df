-- Ratings of findings, one a rater and delivery, and the harmful ones.
SELECT 'denominator' AS role, id AS item, seq, 1 AS n, seq AS of FROM rating
UNION ALL
SELECT 'numerator', id, seq, 1, seq FROM rating WHERE rating = 'harmful'
