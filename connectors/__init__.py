"""Connectors: where queries come from and where answers go. They know nothing of predictors or privacy."""
