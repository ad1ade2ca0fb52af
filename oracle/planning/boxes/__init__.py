"""Plans of boxes."""
