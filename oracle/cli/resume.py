"""`perpetua resume`: the end of `perpetua pause`."""

import typer

from oracle.cli.options import ConfigFile, ModelName
from oracle.config.daemon import load_config, load_configs
from oracle.state.paused import write_resumed
from oracle.state.shards import shard_count

__all__ = ["run"]


def run(config_file: ConfigFile, model: ModelName = None) -> None:
    """Have a model that was paused (`perpetua pause`) go on where it waits; of many all, unless one is named."""
    configs = load_configs(config_file).values() if model is None else [load_config(config_file, model)]
    folders = [config.state.folder for config in configs]
    for folder in folders:
        shard_count(folder)
    for folder in folders:
        typer.echo(f"{folder}: goes on" if write_resumed(folder) else f"{folder}: was not paused")
