"""Daemons killed where a side is armed afresh and where a phase ends: before, at and after the commit of that round.

The hidden record is a query: there, or not. In both worlds whatever all daemons together show must be, byte for byte,
what one uninterrupted shard shows, answers and ledger.
"""

import shutil
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, SideRearmed
from oracle.audit.crashes.folders import Serve, ServedFolder, serve, serve_and_kill, serve_to_the_end
from oracle.audit.findings import Check
from oracle.audit.games.game import Game
from oracle.audit.games.hammers import known_rows, value_at
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.randomness import Randomness
from oracle.audit.runs.served import Served
from oracle.errors import ResourceError, StateError
from oracle.planning.plan import BoxPlan
from oracle.state.format import Snapshot

__all__ = ["strike_boundaries"]

_EPSILON, _DELTA = 4.0, 0.01
_BATCH: Final = 7
"""Messages that a daemon answers at a time."""

_BEHIND: Final = 40
"""Rounds behind the last boundary."""

_KILLS: Final = 3


def _whole(plan: BoxPlan, game: Game[BoxPlan], *, present: bool) -> tuple[Served, list[bytes]]:
    """Have queries answered by one uninterrupted shard, and return it and them.

    By turns they are in the window and beyond all rows. The hidden one comes first; where it is not there, a message
    that is none takes its place, and no round. Those labelled 1 are what phase 2 starts with.
    """
    phase = plan.phases[0]
    rounds, depth = phase.rounds, (phase.start.low + phase.start.high) // 2
    whole = Served(plan, game.predictor)
    sent: list[bytes] = [b'{"id":"0","x":[%r]}' % value_at(plan, depth) if present else b'{"id":"0"}']
    whole.send(sent)
    window = value_at(plan, depth)
    for _ in plan.phases:
        numbers = np.arange(len(sent), rounds + len(sent))
        values = np.where(numbers % 2, plan.declared + numbers, window + 0.4 * numbers / (2.0 * rounds))
        some = [b'{"id":"%d","x":[%r]}' % pair for pair in zip(numbers.tolist(), values.tolist(), strict=True)]
        some = some[: rounds - _BEHIND] if len(sent) > rounds else some
        replies = whole.send(some)
        sent += some
        window = sorted(value for value, reply in zip(values, replies, strict=False) if b'"label":1' in reply)[depth]
    return whole, sent


def _at(whole: Served) -> list[int]:
    """Return how many messages come before each boundary."""
    rounds = [b'"round":%d,' % one for one in _boundaries(whole.ledger)]
    return [next(number for number, reply in enumerate(whole.replies) if one in reply) for one in rounds]


def _boundaries(ledger: list[bytes]) -> list[int]:
    """Return the rounds before which the first side of each phase was armed afresh, and those where phases end."""
    events = [msgspec.json.decode(line, type=LedgerEvent) for line in ledger]
    rearmed: dict[int, int] = {}
    for event in events:
        if isinstance(event, SideRearmed):
            rearmed.setdefault(event.phase, event.round)
    return sorted({*rearmed.values(), *(event.round for event in events if isinstance(event, PhaseEnded))})


def strike_boundaries(folder: Path, seed: bytes, serve_it: Serve = serve) -> Check:
    """Serve a game of each world through daemons that are killed three times at each boundary.

    The log ends there for each of these kills: the first one strikes while the batch with the last round before the
    boundary is answered, the second one when it is, the third one when the round behind it, alone in its batch, is.
    A world whose daemons cannot be kept running on this machine is not looked at.

    Args:
        folder: An empty folder to work in.
        seed: Of the audit's randomness.
        serve_it: What serves.
    """
    started = time.monotonic()
    plan = small_plan(TARGETS[0], _EPSILON, _DELTA)
    kills, said, unplayed = 0, list[str](), list[str]()
    for present in (False, True):
        game = Game(plan, Randomness(seed, "daemon, boundaries").secret(int(present)), present=present)
        game.train(*known_rows(plan))
        snapshot = Snapshot.first(plan.digest, game.predictor.export())
        whole, bodies = _whole(plan, game, present=present)
        at = _at(whole)
        served = ServedFolder(folder / f"{int(present)}", plan, snapshot)
        try:
            same = _served(served, serve_it, whole, bodies, at)
            kills += _KILLS * len(at)
        except StateError as exc:
            same = False
            said.append(str(exc))
        except (ResourceError, OSError) as exc:
            same = served.answers() == whole.replies[: len(served.answers())]
            unplayed.append(f"not looked at, as the machine did not let a daemon run: {exc}")
        said += [] if same else [f"the world {'with' if present else 'without'} the query went another way"]
        shutil.rmtree(folder / f"{int(present)}")
    return Check(
        cell="daemon|boundaries",
        target="serve, killed and restarted",
        name="a kill where a side is armed or a phase ends changes nothing",
        passed=not said and not unplayed,
        unsure=bool(unplayed) and not said,
        says="; ".join(said + unplayed)
        or f"{kills} kills in two worlds, all answers and ledger lines as without a kill",
        seconds=time.monotonic() - started,
    )


def _served(served: ServedFolder, serve_it: Serve, whole: Served, bodies: list[bytes], at: list[int]) -> bool:
    """Serve all, with kills, and return whether all is what was shown without them."""
    fed, seen = 0, []
    for boundary in at:
        for stop, count in ((boundary, boundary - _BATCH), (boundary, boundary), (boundary + 1, boundary + 1)):
            served.feed(bodies[fed:stop])
            fed = stop
            serve_and_kill(served, serve_it, max(count, 1))
            seen.append(served.answers())
    stop = at[-1] + _BEHIND
    served.feed(bodies[fed:stop])
    serve_to_the_end(served, serve_it)
    ledger, wanted = served.ledger(), whole.replies[:stop]
    same = served.answers() == wanted and all(lines == wanted[: len(lines)] for lines in seen)
    return same and ledger == whole.ledger[: len(ledger)] and _boundaries(ledger) == _boundaries(whole.ledger)
