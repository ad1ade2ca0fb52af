"""`python tests/benchmarks/peers/compile.py FOLDER`: compile the peer on Kafka Streams, and gather its jars."""

import sys
from pathlib import Path

from jars import build  # deploy/kafka is on the path

folder = Path(sys.argv[1]).resolve()
build(
    Path(__file__).with_name("pom.xml"),
    "compile",
    "dependency:copy-dependencies",
    f"-DoutputDirectory={folder}/jars",
    f"-Dpeer.folder={folder}",
)
