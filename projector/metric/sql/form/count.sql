numerator, NULL AS denominator, numerator * 1.0 / per AS value
