"""Fetch Apicurio Registry into the cache, once (142 MB), and print a `java` that runs it and its folder."""

import hashlib
import sys
import tempfile
from pathlib import Path

from jars import build, check_java, find_java, jar_folder  # deploy/kafka is on the path
from processes import locked, say

_POM = Path(__file__).with_name("pom.xml")


def fetch() -> Path:
    """Return the folder with the registry's runner, after fetching it if it is the first time."""
    cache = jar_folder().parent
    folder = cache / f"apicurio-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "apicurio.lock"):
        if folder.exists():  # another process fetched it while this one waited
            return folder
        say(f"Fetching Apicurio Registry into {folder} (142 MB, once) ...")
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as temporary:
            build(_POM, "dependency:unpack", f"-DoutputDirectory={temporary}/registry")
            Path(temporary, "registry").rename(folder)
    return folder


if __name__ == "__main__":
    java = find_java()
    check_java(java)
    sys.stdout.write(f"{java}\n{fetch()}\n")
