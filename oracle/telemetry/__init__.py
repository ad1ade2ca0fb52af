"""What may be told of a running process: records, log, metrics, health."""
