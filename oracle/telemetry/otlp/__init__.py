"""Metrics and spans by OTLP: the only place that imports OpenTelemetry, which is optional (the extra `otel`)."""
