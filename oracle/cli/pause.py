"""`perpetua pause`: have all of a model's processes wait."""

import typer

from oracle.cli.options import ConfigFile
from oracle.config.daemon import load_config
from oracle.state.paused import write_paused
from oracle.state.shards import shard_count

__all__ = ["run"]


def run(config_file: ConfigFile) -> None:
    """Have a model wait: what was taken is answered, nothing more is fetched, until `perpetua resume`.

    It goes for every process that serves from the state folder, and
    holds when they restart. They stay members of their group, and
    connected; on HTTP questions are refused meanwhile (503).
    """
    folder = load_config(config_file).state.folder
    shard_count(folder)
    typer.echo(f"{folder}: paused" if write_paused(folder) else f"{folder}: was paused already")
