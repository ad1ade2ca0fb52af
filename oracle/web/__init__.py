"""Metrics, health and a status page over HTTP: read-only, from the telemetry records alone."""
