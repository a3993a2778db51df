-- -ln of the probability given to what happened, p between 0.000001 and 0.999999, of each
-- scorable prediction with a verdict, in billionths.
WITH given AS (SELECT id, by, predicted, verdict, min(max(p, 0.000001), 0.999999) AS p FROM verdict WHERE decided AND scored)
SELECT 'numerator' AS role, id AS item, by AS seq, CAST(round(-ln(CASE verdict WHEN 'confirmed' THEN p ELSE 1 - p END) * 1e9) AS INTEGER) AS n, predicted AS of
FROM given
