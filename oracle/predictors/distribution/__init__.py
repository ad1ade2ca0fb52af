"""Shares of rows at or below any value, and quantiles: paid questions at thresholds that retire."""
