"""What a shard is, after whatever has happened to it."""

from hypothesis import given
from hypothesis import strategies as st

from oracle.telemetry.states import Event, Lifecycle, State

_RUN = [
    (Event.ASSIGNED, State.WAITING),
    (Event.RESTORING, State.RESTORING),
    (Event.RESTORED, State.RESTORING),
    (Event.SERVING, State.SERVING),
    (Event.BUS_FAILED, State.WAITING),
    (Event.RESTORING, State.RESTORING),
    (Event.SERVING, State.SERVING),
    (Event.FENCED, State.FENCED),
    (Event.RESTORING, State.RESTORING),
    (Event.SERVING, State.SERVING),
    (Event.STOPPED, State.STOPPED),
    (Event.ASSIGNED, State.WAITING),
    (Event.FAILED, State.FAILED),
    (Event.SERVING, State.FAILED),
    (Event.BUS_FAILED, State.FAILED),
    (Event.REVOKED, State.STOPPED),
]


def _after(*events):
    lifecycle = Lifecycle()
    for event in events:
        lifecycle = lifecycle.after(event)
    return lifecycle


def test_a_run_step_by_step():
    """From assigned to its end and on; a failure stands until the shard is assigned or restored anew."""
    lifecycle = Lifecycle()
    for event, state in _RUN:
        lifecycle = lifecycle.after(event)
        assert lifecycle.state is state, event


def test_a_link_that_outlasts_its_losses():
    """A run that serves does what its link does; before and after, what the run does. Where it stands stays known."""
    up = (Event.LINK_AWAITED, Event.RESTORING, Event.RESTORED)
    assert _after(*up).state is State.RESTORING
    assert _after(*up, Event.SERVING).state is State.WAITING
    found: tuple[Event, ...] = (*up, Event.SERVING, Event.LINK_FOUND)
    assert _after(*found).state is State.SERVING
    for _ in range(3):
        found = (*found, Event.LINK_LOST)
        assert (_after(*found).state, _after(*found).restored) == (State.WAITING, True)
        assert _after(*found, Event.LINK_REFUSED).state is State.REFUSED
        found = (*found, Event.LINK_REFUSED, Event.LINK_FOUND)
        assert _after(*found).state is State.SERVING
    assert _after(*found, Event.LINK_LOST, Event.STOPPED).state is State.STOPPED


def test_answering_without_snapshots():
    """Until one is written, and its folder can be; a link that is lost says more."""
    serving = _after(Event.RESTORING, Event.RESTORED, Event.SERVING)
    for broken, mended in ((Event.UNSAVED, Event.SAVED), (Event.UNWRITABLE, Event.WRITABLE)):
        assert serving.after(broken).state is State.DEGRADED
        assert serving.after(broken).after(Event.LINK_LOST).state is State.WAITING
        assert serving.after(broken).after(Event.LINK_LOST).after(Event.LINK_FOUND).state is State.DEGRADED
        assert serving.after(broken).after(mended).state is State.SERVING
    assert serving.after(Event.UNSAVED).after(Event.UNWRITABLE).after(Event.WRITABLE).state is State.DEGRADED


def test_an_operator_has_it_wait():
    """While it serves: a link that is lost says more, a snapshot that fails less. A new run is paused by itself."""
    serving = _after(Event.RESTORING, Event.RESTORED, Event.SERVING)
    paused = serving.after(Event.PAUSED)
    assert (paused.state, paused.restored) == (State.PAUSED, True)
    assert paused.after(Event.UNSAVED).state is State.PAUSED
    assert paused.after(Event.LINK_LOST).state is State.WAITING
    assert paused.after(Event.RESUMED) == serving
    assert paused.after(Event.STOPPED).state is State.STOPPED
    assert paused.after(Event.RESTORING).after(Event.RESTORED).after(Event.SERVING) == serving


@given(events=st.lists(st.sampled_from(Event), max_size=20))
def test_nothing_sticks(events):
    """Whatever has happened, all being well again it serves."""
    well = (Event.ASSIGNED, Event.RESTORING, Event.RESTORED, Event.LINK_FOUND, Event.SAVED, Event.WRITABLE)
    assert _after(*events, *well, Event.SERVING) == Lifecycle(run=State.SERVING, restored=True)
