"""From message bodies to one NumPy batch, and from its answers back to bodies."""
