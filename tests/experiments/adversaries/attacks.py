"""The adversaries. Each sees every private point (see `View`), which is more than the answers to all others."""

import math

import numpy as np

from tests.experiments.adversaries.views import Adversary, Mix, View, mixed
from tests.experiments.adversaries.weighted import Armed

_FAR = -1e6
"""A key far outside on any side."""


def _even(view: View, points: list[tuple[int, float]]) -> Mix:
    """Ask for each (side, key) equally often."""
    queries = np.array([view.query(side, key) for side, key in points])
    return Mix(queries, np.full(len(points), 1.0 / len(points)))


def _zone(armed: Armed, width: float, count: int) -> list[float]:
    """Return keys spread over the depths within `width` nats of the zone between the thresholds."""
    instance = armed.instance
    beyond = width / instance.scale
    depths = np.linspace(max(instance.low - beyond, 1.0), min(instance.high + beyond, instance.points), count)
    first, last = armed.key_at(depths[0]), armed.key_at(depths[-1])
    return list(np.linspace(first, last, count))


class FloodFace(Adversary):
    """Far outside on one face, for ever."""

    def mix(self, view: View) -> Mix:
        """Flood side 0."""
        return _even(view, [(0, _FAR)])


class FloodAll(Adversary):
    """Far outside on all sides by turns."""

    def mix(self, view: View) -> Mix:
        """Flood every side."""
        return _even(view, [(side, _FAR) for side in range(len(view.armed))])


class EdgeHammer(Adversary):
    """Hammers exactly between the thresholds of every side, and follows when the side is armed afresh; half floods."""

    def mix(self, view: View) -> Mix:
        """Spread over each side's zone."""
        points = [(side, key) for side, armed in enumerate(view.armed) for key in _zone(armed, 0.0, 6)]
        return mixed((1.0, _even(view, points)), (1.0, FloodAll().mix(view)))


class PushIn(Adversary):
    """A cluster just inside an edge, as deep as its queries can still make mediums of: the costliest place.

    A query at e (f - t_h) = u nats past the upper threshold is medium with probability about exp(-u); the cluster sits
    where half of the phase's hostile queries just fill a side, which throws away the most of its stripe.
    """

    def mix(self, view: View) -> Mix:
        """Sit at that depth on every side at once."""
        queries = view.hostile * view.phase.rounds / (2.0 * len(view.armed))
        nats = math.log(max(queries / (1.05 * view.phase.stopper.cap), 1.0))
        points = []
        for side, armed in enumerate(view.armed):
            instance = armed.instance
            depth = min(instance.high + nats / instance.scale, instance.points)
            points.append((side, armed.key_at(depth)))
        return _even(view, points)


class DeepFlood(Adversary):
    """Makes every side be armed afresh, then floods the middle of the box, far inside."""

    def mix(self, view: View) -> Mix:
        """Hammer the sides not yet armed afresh in this phase, then ask in the middle only."""
        points = [
            (side, key)
            for side, armed in enumerate(view.armed)
            if not view.rearms[side]
            for key in _zone(armed, 0.0, 6)
        ]
        if points and view.left > view.phase.rounds // 2:
            return _even(view, points)
        return _even(view, [(0, 0.5)])


class ExhaustFace(Adversary):
    """Exhausts one face over and over, with queries spread widely about its zone so that there is always a next one."""

    def mix(self, view: View) -> Mix:
        """Spread over the depths about side 0's zone."""
        return _even(view, [(0, key) for key in _zone(view.armed[0], 4.0, 24)])


class FloodAndPush(Adversary):
    """Half floods all sides, half pushes in."""

    def mix(self, view: View) -> Mix:
        """Mix the two."""
        return mixed((1.0, FloodAll().mix(view)), (1.0, PushIn().mix(view)))
