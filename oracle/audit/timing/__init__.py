"""Whether the time of an answer tells of private data."""
