"""Attacks on what anybody has released."""
