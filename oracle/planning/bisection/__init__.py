"""Plans of OnlineBisection."""
