-- The regret of each scored response in millionths, where it is known.
SELECT 'numerator' AS role, item, by AS seq, CAST(round(regret * 1e6) AS INTEGER) AS n, seq AS of, part FROM marked WHERE abs(regret) * 1e6 <= 9007199254740992.0
