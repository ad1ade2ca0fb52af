# ruff: noqa: INP001 - beside broker.py, not in a package
"""What a Kafka node runs on: a Java, and Kafka's jars, which Maven copies into a cache once."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from processes import BrokerError, locked, run, say

__all__ = ["build", "check_java", "fetch", "find_java", "jar_folder"]

HERE = Path(__file__).resolve().parent
OLDEST_JAVA = 17
FETCH_SECONDS = 900


def find_java() -> str:
    """Return the path of `java`, from JAVA_HOME or else the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found:
        return found
    where = f"in JAVA_HOME ({home})" if home else "on the PATH"
    raise BrokerError(
        f"Kafka needs a Java {OLDEST_JAVA} or newer, and there is no `java` {where}."
        " Install one (Debian and Ubuntu: apt-get install default-jre-headless)."
    )


def check_java(java: str) -> None:
    """Refuse a Java that Kafka does not run on."""
    text = run([java, "-version"], seconds=60, purpose="ask for the version of Java").strip()
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    if version is None or int(version[1]) < OLDEST_JAVA:
        first = text.partition("\n")[0]
        raise BrokerError(
            f"Kafka needs a Java {OLDEST_JAVA} or newer; {java} is {first}."
            " Install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
        )


def jar_folder() -> Path:
    """Return the folder in the cache that is for the jars of this pom."""
    pom = (HERE / "pom.xml").read_bytes()
    version = re.search(rb"<kafka\.version>(.+?)</kafka\.version>", pom)
    if version is None:
        raise BrokerError(f"{HERE / 'pom.xml'} names no kafka.version.")
    cache = os.environ.get("PERPETUA_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "perpetua")  # noqa: PTH118
    return Path(cache) / f"kafka-{version[1].decode()}-{hashlib.sha256(pom).hexdigest()[:8]}"


def fetch() -> Path:
    """Return the folder of jars, after copying them there with Maven if it is the first time."""
    folder = jar_folder()
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / "kafka.lock"):
        if folder.exists():  # another process fetched them while this one waited
            return folder
        say(f"Fetching Kafka's jars into {folder} (43 MB, once) ...")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as temporary:
            build(HERE / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={temporary}/jars")
            Path(temporary, "jars").rename(folder)
    return folder


def build(pom: Path, *goals: str) -> None:
    """Run Maven; once more with the certificates of the machine if that fails with Java's own."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError(
            "Kafka's jars are fetched with Maven, and there is no `mvn` on the PATH."
            " Install it (Debian and Ubuntu: apt-get install maven)."
        )
    command = [maven, "-B", "-q", "-f", str(pom), *goals]
    try:
        run(command, seconds=FETCH_SECONDS, purpose="fetch Kafka")
    except BrokerError:
        say("Trying again with the certificates that this machine trusts besides Java's ...")
        with tempfile.TemporaryDirectory() as folder:
            trust = trusted_by_the_machine(Path(folder, "trust.p12"))
            run([*command, "-U", *trust], seconds=FETCH_SECONDS, purpose="fetch Kafka")


def trusted_by_the_machine(path: Path) -> list[str]:
    """Return options that have Java trust what the machine's OpenSSL trusts.

    Raises:
        BrokerError: The list cannot be made: this Python has no `cryptography`, or the machine no list.
    """
    run([sys.executable, str(HERE / "truststore.py"), str(path)], seconds=FETCH_SECONDS, purpose="fetch Kafka")
    kind = "javax.net.ssl.trustStore"
    return [f"-D{kind}={path}", f"-D{kind}Password=changeit", f"-D{kind}Type=PKCS12"]
