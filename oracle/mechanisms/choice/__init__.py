"""The exponential mechanism, exact: over losses, and over all float64 numbers."""
