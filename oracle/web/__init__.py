"""Metrics, health and a status page over HTTP: to be looked at, and made from the telemetry records only."""
