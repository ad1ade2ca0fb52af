"""One `perpetua` process of the leak test: like any other, but for its random bytes, its plan, and what breaks it.

Nor does it show progress, which it would where the machine is slow.
"""

import math
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import oracle.cli.serve.single
import oracle.web.server  # noqa: F401 -- imported before the fork, once for all
from oracle.cli import progress
from oracle.cli.init import command as init
from oracle.cli.main import main
from oracle.cli.serve import web
from oracle.planning.kinds import decode_plan
from oracle.planning.questions import QuestionPlan
from tests.leaks.coupling import Apart, couple
from tests.leaks.mutants import MUTANTS
from tests.leaks.tokens import Tokens


@dataclass(frozen=True)
class Order:
    """What a process is to do.

    Attributes:
        arguments: Of the command.
        folder: Its working folder; all paths are relative to it, so that no text depends on where it is.
        out: File for its standard output.
        err: File for its standard error.
        plan: What `init` plans, as `Plan.encode` writes it.
        apart: Where a row stands in the other world, and in this one, to which its noise is fitted.
        mutant: How it is broken; None for the real one.
    """

    arguments: tuple[str, ...]
    folder: Path
    out: Path
    err: Path
    plan: bytes
    apart: Apart | None
    mutant: str | None


def run(order: Order) -> None:
    """Be the process."""
    for descriptor, path in ((1, order.out), (2, order.err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(order.folder)
    for name in [name for name in os.environ if name.startswith("PERPETUA_")]:
        del os.environ[name]
    os.environ |= {"COLUMNS": "200", "NO_COLOR": "1"}
    patch = pytest.MonkeyPatch()
    plan = decode_plan(order.plan)
    patch.setattr(secrets, "token_bytes", Tokens().token_bytes)
    patch.setattr(init, "plan_shards", lambda *_: plan)
    patch.setattr(progress, "_QUIET", math.inf)
    patch.setattr(web, "_SHOWN_SECONDS", 0.1)  # a diverged log would be shown for long
    if order.apart is not None and isinstance(plan, QuestionPlan):
        couple(patch, plan, order.apart)
    if order.mutant is not None:
        MUTANTS[order.mutant].break_it(patch)
    sys.argv = ["perpetua", *order.arguments]
    main()
