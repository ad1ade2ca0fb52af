"""Threshold queries: BetweenThresholds, the Stopper, challenges, noisy bits."""
