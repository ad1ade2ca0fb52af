"""Journals of the tests' own."""

from pathlib import Path

from connectors.journal.journal import Journal

KEY = bytes(range(32))


def opened(folder: Path) -> Journal:
    """Return an open journal of 1 MiB."""
    journal = Journal(folder, KEY, "test", limit=1 << 20)
    journal.open()
    return journal


def append(folder: Path, *groups: list[bytes]) -> None:
    """Write groups of records by one process."""
    journal = opened(folder)
    for group in groups:
        journal.append(group)
    journal.close()


def bodies_of(journal: Journal) -> list[bytes]:
    """Return all records, whose positions must be right."""
    found = journal.reader(journal.first).read(10_000)
    assert [record.position for record in found] == list(range(journal.first + 1, journal.end + 1))
    return [record.body for record in found]


def reopened(folder: Path) -> list[bytes]:
    """Return what a process that starts now finds."""
    journal = opened(folder)
    try:
        return bodies_of(journal)
    finally:
        journal.close()
