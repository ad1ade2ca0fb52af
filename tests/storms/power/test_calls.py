"""All that must last goes through one module: so what is recorded there, and tested, is all there is."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]
_MODULE: Final = "oracle/durable.py"
_OS: Final = frozenset(
    [
        "fsync",
        "fdatasync",
        "ftruncate",
        "link",
        "makedirs",
        "mkdir",
        "pwrite",
        "remove",
        "removedirs",
        "rename",
        "renames",
        "replace",
        "rmdir",
        "symlink",
        "sync",
        "truncate",
        "unlink",
        "write",
        "writev",
    ]
)
_PATH: Final = frozenset(
    ["hardlink_to", "mkdir", "rename", "rmdir", "symlink_to", "touch", "unlink", "write_bytes", "write_text"]
)
_WRITING: Final = ("O_CREAT", "O_TRUNC", "O_TMPFILE")

_OTHERS: Final = {
    "oracle/audit/around/acting.py": "the folders of commands that are run for a check",
    "oracle/audit/around/commands.py": "the same folders",
    "oracle/audit/around/forks.py": "the folder of a state that is forked for a check",
    "oracle/audit/around/states.py": "a second name of a snapshot that is to be overwritten",
    "oracle/audit/crashes/boundaries.py": "the folders of daemons that are killed",
    "oracle/audit/crashes/daemons.py": "the same folders",
    "oracle/audit/crashes/folders.py": "the folders of daemons that are played with",
    "oracle/audit/structure/told.py": "the folders of daemons whose logs are compared",
    "oracle/cli/audit/files.py": "a report, made again by the same command",
    "oracle/cli/audit/releases.py": "the files of an attack, made again by the same command",
    "oracle/cli/demo.py": "the demonstration's folder",
    "oracle/demo/bus.py": "the demonstration's files",
    "oracle/demo/data.py": "the demonstration's files",
    "oracle/demo/mqtt_bus.py": "the demonstration's files",
    "connectors/local/asking.py": "a query, which its asker repeats if it is lost",
    "oracle/cli/hypothesis/cube.py": "a hypothesis, written again by the same command",
    "oracle/cli/replay/kafka.py": "a temporary copy of answers",
    "oracle/state/members.py": "names in the group, without which it waits for a session",
    "oracle/state/space.py": "a trial of a folder, unlinked at once",
}
"""Files that change files which need not last, and what those are."""


def _changes(tree: ast.AST) -> Iterator[str]:
    """Yield each call that changes a file or folder."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        owner, _, name = text.rpartition(".")
        modes = [
            part.value
            for part in [*node.args, *(word.value for word in node.keywords)]
            if isinstance(part, ast.Constant)
        ]
        if (
            (owner == "os" and name in _OS)
            or (owner == "os" and name == "open" and any(flag in ast.unparse(node) for flag in _WRITING))
            or (owner not in {"os", "durable"} and name in _PATH)
            or (name == "replace" and len(node.args) == 1 and not node.keywords)
            or (
                name == "open"
                and any(isinstance(mode, str) and set(mode) & set("wax+") and len(mode) <= 3 for mode in modes)
            )
            or owner == "shutil"
        ):
            yield f"line {node.lineno}: {text}"


def test_files_are_changed_in_one_place():
    """No other module makes, renames, links, unlinks, cuts, writes or syncs a file of its own, but those named here."""
    paths = [path for part in ("oracle", "connectors") for path in sorted((_ROOT / part).rglob("*.py"))]
    found = {str(path.relative_to(_ROOT)): list(_changes(ast.parse(path.read_text()))) for path in paths}
    assert len(found.pop(_MODULE)) > 10
    assert {name: lines for name, lines in found.items() if lines and name not in _OTHERS} == {}
    assert [name for name in _OTHERS if not found[name]] == []
