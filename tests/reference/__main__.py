"""`python -m tests.reference`: make deploy/REFERENCE.md again."""

from tests.reference.page import page
from tests.support.pages import ROOT

if __name__ == "__main__":
    (ROOT / "deploy" / "REFERENCE.md").write_text(page())
