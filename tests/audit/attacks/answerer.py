"""Programs for `perpetua audit trace --ask` and `majority --ask`: python answerer.py KIND [NUMBER] [SEED]."""

import json
import random
import sys


def shares(deviation: float, draws: random.Random) -> None:
    """Answer with normal noise; spent after NUMBER questions where it is negative."""
    rows = set(json.loads(sys.stdin.readline())["rows"])
    for number, line in enumerate(sys.stdin):
        exact = len(rows.intersection(json.loads(line)["ids"])) / len(rows)
        spent = deviation < 0.0 and number > -deviation - 1.0
        answer = None if spent else exact + draws.gauss(0.0, max(deviation, 0.0))
        sys.stdout.write(json.dumps({"answer": answer}) + "\n")
        sys.stdout.flush()


def copies(kept: float, draws: random.Random, *, fresh: bool) -> None:
    """Answer by randomized response."""
    bits = json.loads(sys.stdin.readline())["bits"]
    first = [bit if draws.random() < kept else 1 - bit for bit in bits]
    for _ in sys.stdin:
        values = [bit if draws.random() < kept else 1 - bit for bit in bits] if fresh else first
        sys.stdout.write(json.dumps({"values": values}) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Be one of them, or one that does not keep to the rules."""
    kind, number, seed = (*sys.argv[1:], "0", "0")[:3]
    draws = random.Random(seed)  # noqa: S311 -- a test's
    if kind == "shares":
        shares(float(number), draws)
    elif kind in {"fresh", "repeated"}:
        copies(float(number), draws, fresh=kind == "fresh")
    elif kind == "says":
        sys.stdin.readline()
        sys.stdout.write(number + "\n")


if __name__ == "__main__":
    main()
