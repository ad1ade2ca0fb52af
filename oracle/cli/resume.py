"""`perpetua resume`: the end of `perpetua pause`."""

import typer

from oracle.cli.options import ConfigFile
from oracle.config.daemon import load_config
from oracle.state.paused import write_resumed
from oracle.state.shards import shard_count

__all__ = ["run"]


def run(config_file: ConfigFile) -> None:
    """Have a model that was paused (`perpetua pause`) go on where it waits."""
    folder = load_config(config_file).state.folder
    shard_count(folder)
    typer.echo(f"{folder}: goes on" if write_resumed(folder) else f"{folder}: was not paused")
