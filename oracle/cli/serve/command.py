"""`perpetua serve`: the daemon."""

from oracle.cli.options import ConfigFile
from oracle.config.daemon import load_config

__all__ = ["run"]


def run(config_file: ConfigFile) -> None:
    """Answer queries until the source ends or a signal arrives (a second one exits at once)."""
    config = load_config(config_file)
    if config.source.kind == "kafka":
        from oracle.cli.serve.kafka import serve_kafka

        serve_kafka(config)
    else:
        from oracle.cli.serve.single import serve_single

        serve_single(config)
