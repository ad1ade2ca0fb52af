"""`perpetua demo`: placeholder while its parts are built."""


def run() -> None:
    """Run the demo."""
