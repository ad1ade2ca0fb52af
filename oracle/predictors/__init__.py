"""The predictors: pure functions of state, batch and keyed noise. One predictor per file."""
