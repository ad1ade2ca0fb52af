"""Plans of stumps."""
