"""Daemons killed where a side is armed afresh and where a phase ends: before, at and after the commit of that round.

The hidden record is a query: there, or not. In both worlds whatever all daemons together show must be, byte for byte,
what one uninterrupted shard shows, answers and ledger.
"""

import shutil
import time
from pathlib import Path
from typing import Final

import msgspec

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, SideRearmed
from oracle.audit.crashes.folders import (
    Serve,
    ServedFolder,
    serve,
    serve_and_kill,
    serve_past_the_end,
    serve_to_the_end,
)
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
"""Messages behind the plan's last round."""

_LONGER: Final = 1.25
"""So many times longer is a step the same way as the last one, and shorter one the other way."""

_KILLS: Final = 3


def _whole(plan: BoxPlan, game: Game[BoxPlan], *, present: bool) -> tuple[Served, list[bytes]]:
    """Have a plan's rounds answered by one uninterrupted shard, and return it and their messages.

    By turns they are beyond all rows, and a step further in than the last was if that was labelled 0, else a step
    further out: where either label is as likely, mediums are frequent, so that sides are armed afresh in every phase.
    The hidden one comes first; where it is not there, a message that is none takes its place, and no round.
    """
    phase = plan.phases[0]
    value = value_at(plan, (phase.start.low + phase.start.high) // 2)
    whole = Served(plan, game.predictor)
    sent: list[bytes] = [b'{"id":"0","x":[%r]}' % value if present else b'{"id":"0"}']
    whole.send(sent)
    step, before = 1.0, b""
    while whole.mark[0] < plan.rounds:
        number = len(sent)
        asked = plan.declared + number if number % 2 else value
        sent.append(b'{"id":"%d","x":[%r]}' % (number, asked))
        label = b'"label":1' if b'"label":1' in whole.send(sent[-1:])[0] else b'"label":0'
        if asked == value:
            step *= _LONGER if label == before else 1.0 / _LONGER
            value += step if label == b'"label":0' else -step
            before = label
    return whole, sent


def _at(whole: Served) -> list[int]:
    """Return how many messages come before each boundary."""
    last = [b'"round":%d,' % (one.round - 1) for one in _boundaries(whole.ledger)]
    return [next(number for number, reply in enumerate(whole.replies, 1) if one in reply) for one in last]


def _boundaries(ledger: list[bytes]) -> list[SideRearmed | PhaseEnded]:
    """Return each phase's end, and the first time that a side was armed afresh in it, by their rounds."""
    events = [msgspec.json.decode(line, type=LedgerEvent) for line in ledger]
    found: dict[tuple[type, int], SideRearmed | PhaseEnded] = {}
    for event in events:
        if isinstance(event, SideRearmed | PhaseEnded):
            found.setdefault((type(event), event.phase), event)
    return sorted(found.values(), key=lambda event: event.round)


def _lacking(plan: BoxPlan, whole: Served) -> list[str]:
    """Return what of each phase a run does not come to."""
    found = {(type(event), event.phase) for event in _boundaries(whole.ledger)}
    due = {SideRearmed: "no side is armed afresh in phase", PhaseEnded: "no end of phase"}
    return [
        f"{says} {one.phase}" for one in plan.phases for kind, says in due.items() if (kind, one.phase) not in found
    ]


def strike_boundaries(folder: Path, seed: bytes, serve_it: Serve = serve) -> Check:
    """Serve a game of each world through daemons that are killed three times at each boundary.

    The log ends there for each of these kills: the first one strikes while the batch with the last round before the
    boundary is answered, the second one when it is, the third one when the round behind it, alone in its batch, is.
    Behind the plan's last end there is no round: there a daemon must end by itself, each time that it is started.
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
        said += _lacking(plan, whole)
        served = ServedFolder(folder / f"{int(present)}", plan, snapshot)
        try:
            same = _served(served, serve_it, whole, bodies, at)
            kills += _KILLS * len(at) - 1
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
        or f"{kills} kills in two worlds, where sides are armed afresh in each phase and where each one ends: "
        "all answers and ledger lines are as without a kill",
        seconds=time.monotonic() - started,
    )


def _served(served: ServedFolder, serve_it: Serve, whole: Served, bodies: list[bytes], at: list[int]) -> bool:
    """Serve all, with kills, and return whether all is what was shown without them."""
    fed, seen = 0, []
    for boundary in at:
        for stop, count in ((boundary, boundary - _BATCH), (boundary, boundary), (boundary + 1, boundary + 1)):
            served.feed(bodies[fed:stop])
            fed = min(stop, len(bodies))
            if stop <= len(bodies):
                serve_and_kill(served, serve_it, max(count, 1))
                seen.append(served.answers())
    if fed == len(bodies):
        served.feed(bodies[-_BEHIND:])
        for _ in range(_KILLS):
            serve_past_the_end(served, serve_it)
            seen.append(served.answers())
    else:
        served.feed(bodies[fed:])
        serve_to_the_end(served, serve_it)
    same = served.answers() == whole.replies and all(lines == whole.replies[: len(lines)] for lines in seen)
    return same and served.ledger() == whole.ledger
