"""`python -m tests.chaos_mqtt`: kill the daemon, restart and pause the broker under load; print what came of it."""

import argparse
import sys
import tempfile
from pathlib import Path

from oracle.cli.progress import Progress
from tests.chaos_mqtt.daemons import MUTANTS
from tests.chaos_mqtt.storm import Wishes, storm

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run a storm, print a table, and return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos_mqtt", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="times to kill the daemon (default %(default)s)")
    parser.add_argument("--restarts", type=int, default=5, help="broker restarts (%(default)s)")
    parser.add_argument("--pauses", type=int, default=5, help="times to pause the broker (%(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="clients that ask (%(default)s)")
    parser.add_argument("--queries", type=int, default=10_000, help="what they ask in all (%(default)s)")
    parser.add_argument("--rate", type=float, default=200.0, help="queries a second, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the queries, moments and choices")
    parser.add_argument("--mutant", choices=MUTANTS, help="break the daemon on purpose: this must find it")
    wishes = Wishes(**vars(parser.parse_args(arguments)))
    done = 0
    with (
        tempfile.TemporaryDirectory(prefix="chaos-mqtt-") as folder,
        Progress("chaos on MQTT", wishes.kills + wishes.restarts + wishes.pauses, "blows") as progress,
    ):

        def on_blow() -> None:
            nonlocal done
            done += 1
            progress.at(done)

        row = storm(Path(folder), wishes, on_blow)
    figures = {
        "kills": row.kills,
        "connected": row.serving,
        "restarts": row.restarts,
        "pauses": row.pauses,
        "queries": row.queries,
        "answers": row.answers,
        "repeated": row.answers - row.queries + row.lost,
        "lost": row.lost,
        "re-noised": row.renoised,
        "doubled": row.doubled,
        "gave up": row.stopped,
        "seconds": round(row.seconds),
    }
    for head, text in zip(figures, map("{:,}".format, figures.values()), strict=True):
        sys.stdout.write(f"{head:10} {text:>8}\n")
    if row.broken:
        sys.stdout.write("".join(f"\nBROKEN PROMISE: {line}" for line in row.trouble[:10]) + "\n")
        return 1
    sys.stdout.write(
        "\nEvery query has one answer, the one that an uninterrupted run gives; repetitions are identical.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
