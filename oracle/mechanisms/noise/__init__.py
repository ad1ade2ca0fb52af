"""Noise from keyed bits: the laws, their tables, and exact draws."""
