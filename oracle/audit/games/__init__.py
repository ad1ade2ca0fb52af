"""Games of two worlds, and the bets that they refute a claimed epsilon by."""
