numerator, values_known AS denominator, numerator * 1.0 / nullif(values_known, 0) / per AS value
