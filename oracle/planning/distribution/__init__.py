"""Plans of distributions: shares of rows at or below any value, and quantiles."""
