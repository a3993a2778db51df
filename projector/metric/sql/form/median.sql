-- By nearest rank: the smallest value that at least 50 % of the values do not exceed.
numerator, values_known AS denominator, (
  SELECT n * 1.0 / per FROM (SELECT n, row_number() OVER (ORDER BY n) AS rank FROM counted WHERE role = 'numerator')
  WHERE rank = (values_known * 50 + 99) / 100) AS value
