"""`perpetua serve`: the daemon."""

from oracle.cli.options import ConfigFile
from oracle.config.daemon import load_configs

__all__ = ["run"]


def run(config_file: ConfigFile) -> None:
    """Answer queries until the source ends or a signal arrives (a second one exits at once)."""
    configs = load_configs(config_file)
    config = configs.get(None)
    if config is None:
        from oracle.cli.serve.kafka import serve_models

        serve_models({name: config for name, config in configs.items() if name is not None})
    elif config.source.kind == "kafka":
        from oracle.cli.serve.kafka import serve_kafka

        serve_kafka(config)
    else:
        from oracle.cli.serve.single import serve_single

        serve_single(config)
