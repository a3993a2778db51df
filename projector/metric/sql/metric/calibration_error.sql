-- p, rounded to billionths, - outcome of each scorable prediction with a verdict, with the sign
-- that makes the sum of its tenth positive. A tenth has its upper bound, and the first 0.
WITH miss AS (
  SELECT id, by, predicted, CASE WHEN p <= 0.1 THEN 1 WHEN p <= 0.2 THEN 2 WHEN p <= 0.3 THEN 3 WHEN p <= 0.4 THEN 4 WHEN p <= 0.5 THEN 5
           WHEN p <= 0.6 THEN 6 WHEN p <= 0.7 THEN 7 WHEN p <= 0.8 THEN 8 WHEN p <= 0.9 THEN 9 ELSE 10 END AS tenth,
         CAST(round(p * 1e9) AS INTEGER) - (verdict = 'confirmed') * 1000000000 AS off
  FROM verdict WHERE decided AND scored AND predicted NOT IN imported AND predicted >= (SELECT first FROM span) AND predicted < (SELECT past FROM span))
SELECT 'numerator' AS role, id AS item, by AS seq, CASE WHEN sum(off) OVER (PARTITION BY tenth) < 0 THEN -off ELSE off END AS n, predicted AS of FROM miss
