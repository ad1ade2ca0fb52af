"""What SIGTERM and SIGINT do to a daemon."""

import asyncio
import signal
from collections.abc import Callable

__all__ = ["install_signals"]


def install_signals(
    *, begin_stop: Callable[[str], bool], exit_now: Callable[[int], None], drain_seconds: float
) -> Callable[[], None]:
    """Stop cleanly at the first SIGTERM or SIGINT; exit at the second one, or when it takes too long.

    Args:
        begin_stop: Called with the signal's name; begins a clean stop, or returns False if there is none to begin:
            it was asked for before, or there is nothing to finish.
        exit_now: Ends the process at once (a crash is always safe).
        drain_seconds: After the first signal, how long the clean stop may take.

    Returns:
        To be called when that stop is done: what a process does behind it, as to close a web server, is not counted.
    """
    loop = asyncio.get_running_loop()
    limit: asyncio.TimerHandle | None = None

    def on_signal(number: signal.Signals) -> None:
        nonlocal limit
        if begin_stop(number.name):
            limit = loop.call_later(drain_seconds, exit_now, 124)
        else:
            exit_now(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)

    def stopped() -> None:
        if limit is not None:
            limit.cancel()

    return stopped
