-- The seconds until the first action that helps, in millionths, of each scored response of
-- which it is known.
SELECT 'numerator' AS role, item, by AS seq, CAST(round(first_useful * 1e6) AS INTEGER) AS n, seq AS of, part FROM marked
WHERE first_useful >= 0 AND first_useful * 1e6 <= 9007199254740992.0
