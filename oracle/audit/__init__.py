"""The auditor: attacks the real predictors and daemon, and reports the epsilon that it could prove."""
