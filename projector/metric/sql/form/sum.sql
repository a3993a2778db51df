numerator, NULL AS denominator, CASE WHEN values_known > 0 THEN numerator * 1.0 / per END AS value
