"""An append-only, encrypted log on disk: what makes a bus replayable that hands every message over once."""
