"""Perpetua's core: mechanisms, accounting, plans, predictors, state, service and command line."""
