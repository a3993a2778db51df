-- What each usage cost at the price of its date, where that is known.
SELECT 'numerator' AS role, item, seq, nano_usd AS n, seq AS of FROM costs WHERE nano_usd IS NOT NULL
