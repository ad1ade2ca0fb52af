"""What a configuration says of how a daemon goes about it, on any bus."""

from oracle.config.daemon import Config
from oracle.runtime.daemon import DaemonSettings

__all__ = ["daemon_settings"]


def daemon_settings(config: Config) -> DaemonSettings:
    """Return the daemon's part of a configuration."""
    return DaemonSettings(
        batch_rows=config.service.batch_rows,
        snapshot_rounds=config.state.snapshot_rounds,
        snapshot_seconds=config.state.snapshot_seconds,
        drain_seconds=config.service.drain_seconds,
    )
