"""What of a run is in sight, by channel, and how two runs are compared.

A channel is a list of entries in the order in which they were seen, each a text or bytes. Two runs are equal if every
channel of the one is the same list as that of the other. Only what is named here is left out, and always by name:

* numbers that are times, or follow from them (`TIMES`): their field, sample or column must be there in both runs;
* the port, which the kernel chooses;
* the label, or the value, of the hidden query's own answer, which only its asker sees: its answer must have the same
  length. Where answers of others follow from it too (`subjects.py`), the same of these;
* where the worlds' queries differ, the running tag in the commit record: a MAC under a key that nobody outside has.

How long things take is another matter, and not looked at here.
"""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oracle.predictors.base import StateArrays
from oracle.runtime.marks import CommitMark
from oracle.state.format import decode, peek
from oracle.state.keys import read_key_file

PATHS: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("/livez", {}),
    ("/readyz", {}),
    ("/metrics", {}),
    ("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"}),
    ("/status", {}),
    ("/", {}),
    ("/nothing", {}),
)
"""What is asked for over HTTP at each look, with which headers."""

_TIMED_METRICS: Final = ("decode", "answer", "commit", "restore", "snapshot", "latency")
TIMES: Final = frozenset(
    {
        "timestamp",  # of log lines
        "seconds",
        "now",  # of /status
        "started",
        "snapshot_at",
        "at",
        "ends",
        "rate",
        "rates",
        "lags",  # one entry for each five seconds
        "snapshot_age_seconds",  # of `perpetua status`
        "date",  # of HTTP
        "perpetua_start_time_seconds",
        "perpetua_snapshot_timestamp_seconds",
        "perpetua_snapshot_age_seconds",
    }
    | {f"perpetua_{work}_seconds_{part}" for work in _TIMED_METRICS for part in ("bucket", "sum")}
)
"""Names of numbers that are times, or follow from them."""

_PORT: Final = "port"
_LENGTH: Final = "content-length"
"""It follows how many digits times have; the pages themselves are compared."""

_OUTCOME: Final = re.compile(rb'(?<="label":)(?:[01]|null) *|(?<="value":)[^ ,]+ *')


@dataclass
class Sightings:
    """What was seen of one run.

    Attributes:
        timeless: Whether times are left out; not where the clock is ours.
        channels: The entries by channel.
        private: What nobody may see: the state in each snapshot that was looked at, to show that the worlds differ.
    """

    timeless: bool = True
    channels: dict[str, list[str | bytes]] = field(default_factory=lambda: defaultdict(list))
    private: list[StateArrays] = field(default_factory=list)

    def add(self, channel: str, entry: str | bytes) -> None:
        """Take note of something."""
        self.channels[channel].append(entry)

    def page(self, path: str, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Take note of an HTTP answer."""
        shown = [f"{name}: {value}" for name, value in headers if name.lower() not in {"date", _LENGTH}]
        self.add("headers", "\n".join((f"{path} {status}", *shown)))
        if path == "/metrics":
            for line in body.decode().splitlines():
                self.add("metrics", self._sample(line))
        elif path == "/status":
            self.add("status", self._document(body))
        else:
            self.add("readyz" if path == "/readyz" else "pages", body)

    def log(self, text: str) -> None:
        """Take note of standard error: log lines in JSON, and others.

        Those of snapshots come last: one is written beside the answering, so where it stands depends on the disk.
        """
        for line in sorted(text.splitlines(), key=lambda line: '"event": "snapshot.written"' in line):
            self.add("log", self._document(line.encode()) if line.startswith("{") else line)

    def document(self, channel: str, body: bytes) -> None:
        """Take note of a JSON document in which times may stand."""
        self.add(channel, self._document(body))

    def answers(self, body: bytes, left_out: range) -> None:
        """Take note of answers, one a line; of the lines of these numbers the label or value is left out."""
        for number, line in enumerate(body.splitlines(keepends=True)):
            self.add("answers", masked(line) if number in left_out else line)

    def files(self, folder: Path) -> None:
        """Take note of the name, mode, links and size of all that is in a folder and below."""
        for path in sorted(folder.rglob("*")):
            status = path.lstat()
            size = 0 if path.is_dir() else status.st_size
            name = path.relative_to(folder)
            self.add("files", f"{name} mode={status.st_mode:o} links={status.st_nlink} bytes={size}")

    def snapshots(self, state: Path) -> None:
        """Take note of the clear headers of a state folder's snapshots, and of the newest one's private state."""
        paths = sorted(state.glob("*.perp"))
        for path in paths:
            self.add("snapshot headers", path.read_bytes()[: peek(path.read_bytes()).header_bytes].hex())
        self.private.append(private_state(state))

    def commit_record(self, path: Path, *, tag_differs: bool) -> None:
        """Take note of the commit record beside the answers."""
        fields = json.loads(path.read_bytes())
        if tag_differs:
            mark = CommitMark.unpack(base64.b64decode(fields["metadata"]))
            fields |= {"metadata": [mark.round, len(mark.tag)], "checksum": len(fields["checksum"])}
        self.add("commit record", json.dumps(fields))

    def _sample(self, line: str) -> str:
        name = re.split(r"[{ ]", line, maxsplit=1)[0]
        return f"{line.rsplit(' ', 1)[0]} (a time)" if self.timeless and name in TIMES else line

    def _document(self, body: bytes) -> str:
        found = json.loads(body)
        return json.dumps(self._without_times(found))

    def _without_times(self, found: Any) -> Any:
        if isinstance(found, list):
            return [self._without_times(entry) for entry in found]
        if not isinstance(found, dict):
            return found
        left_out = TIMES | {_PORT} if self.timeless else {"timestamp"}
        return {name: "(left out)" if name in left_out else self._without_times(value) for name, value in found.items()}


def masked(answer: bytes) -> bytes:
    """Return an answer in JSON without its label or value, which must be there, or an error answer."""
    shown, found = _OUTCOME.subn(lambda match: b"?" * len(match[0]), answer)
    assert found == (b'"error":' not in answer), answer
    return shown


def masked_rows(size: int, rows: list[dict[str, Any]], first: int, left_out: range) -> str:
    """Return the rows of an answer in Arrow or Parquet of `size` bytes, some without their label or value.

    Args:
        size: Bytes.
        rows: The rows.
        first: Number of the first one's message.
        left_out: Numbers of the messages.
    """
    for number, row in enumerate(rows, first):
        if number in left_out:
            row.update(dict.fromkeys(row.keys() & {"label", "value"}, "(left out)"))
    return f"{size} bytes: {rows}"


def private_state(state: Path) -> StateArrays:
    """Return what a state folder's newest snapshot hides, by the key beside it."""
    data = max(state.glob("*.perp")).read_bytes()
    return decode(data, read_key_file(state / "key"), peek(data).plan_digest).arrays


@dataclass(frozen=True)
class Difference:
    """Where two runs differ.

    Attributes:
        channel: In what.
        left: The first entry that differs, or what there is none of.
        right: The other one's.
    """

    channel: str
    left: str | bytes
    right: str | bytes


def compare(left: Sightings, right: Sightings) -> list[Difference]:
    """Return the first difference of each channel that has one."""
    found = []
    for channel in sorted(left.channels.keys() | right.channels.keys()):
        mine, other = left.channels.get(channel, []), right.channels.get(channel, [])
        if mine != other:
            place = next((at for at, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), None)
            if place is None:
                found.append(Difference(channel, f"{len(mine)} entries", f"{len(other)} entries"))
            else:
                found.append(Difference(channel, mine[place], other[place]))
    return found
