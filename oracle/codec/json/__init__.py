"""JSON objects: one query a message, one answer a reply."""
