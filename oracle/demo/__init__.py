"""The demonstration: flights, the baselines beside it, and its report."""
