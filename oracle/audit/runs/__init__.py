"""Predictors run from messages to replies and a ledger, beside the plain re-implementations of them."""
