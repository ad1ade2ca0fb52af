"""`perpetua pause`: have all of a model's processes wait."""

import typer

from oracle.cli.options import ConfigFile, ModelName
from oracle.config.daemon import load_config, load_configs
from oracle.state.paused import write_paused
from oracle.state.shards import shard_count

__all__ = ["run"]


def run(config_file: ConfigFile, model: ModelName = None) -> None:
    """Have a model wait: what was taken is answered, nothing more is fetched, until `perpetua resume`.

    It goes for every process that serves from the state folder, and
    holds when they restart. They stay members of their group, and
    connected; on HTTP questions are refused meanwhile (503). Of a
    configuration with many models all pause, unless one is named.
    """
    configs = load_configs(config_file).values() if model is None else [load_config(config_file, model)]
    folders = [config.state.folder for config in configs]
    for folder in folders:
        shard_count(folder)
    for folder in folders:
        typer.echo(f"{folder}: paused" if write_paused(folder) else f"{folder}: was paused already")
