"""The auditor: it attacks the real predictors and the real daemon, and says what it could prove about their epsilon."""
