"""Plans: every number that a run is bound to, fixed before any data is read."""
