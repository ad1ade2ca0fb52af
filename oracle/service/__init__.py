"""The daemon: shards, their lifecycle, configuration and telemetry."""
