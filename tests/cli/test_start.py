"""What starting a command costs."""

import subprocess
import sys

import pytest

from oracle.cli.commands import COMMANDS, module_of

_HEAVY = {
    "numpy",
    "pyarrow",
    "pydantic",
    "structlog",
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "matplotlib",
    "aiokafka",
    "uvicorn",
}


def test_commands_load_what_they_need_when_they_need_it():
    """The command line itself loads no library that only some commands need: a daemon restarts in no time."""
    script = f"import sys, oracle.cli.main; print(*sorted({_HEAVY!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert found.stdout.split() == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_it_says_of_itself(name):
    """The sentence in the table is the command's own."""
    module = module_of(name)
    says = module.app.info.help if hasattr(module, "app") else module.run.__doc__
    assert " ".join(says.partition("\n\n")[0].split()) == COMMANDS[name]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell):
    """The script for a shell is printed, and completion names the commands and their options."""
    words = {"bash": "COMP_WORDS", "zsh": "_TYPER_COMPLETE_ARGS", "fish": "_TYPER_COMPLETE_ARGS"}[shell]
    setting = {"_PERPETUA_COMPLETE": f"complete_{shell}", words: "perpetua ", "COMP_CWORD": "1"}
    setting["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    script = [sys.executable, "-c", "from oracle.cli.main import app; app(prog_name='perpetua')"]
    found = subprocess.run(script, env=setting, capture_output=True, check=False, text=True)
    assert "verify" in found.stdout
