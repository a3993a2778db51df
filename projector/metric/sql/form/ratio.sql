numerator, denominator, CASE WHEN unknown = 0 OR NOT whole THEN numerator * 1.0 / nullif(denominator, 0) * times / per END AS value
