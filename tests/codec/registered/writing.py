"""Writers of queries with schemas: what a client's serializer makes of a row, and what the codec makes of that."""

import io
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from connectors.base import AVRO, PROTOBUF, REGISTERED, Deliveries, Delivery
from oracle.codec.decoded import DecodedBatch
from oracle.codec.registered.avro import AvroAnswers
from oracle.codec.registered.codec import RegisteredCodec
from oracle.codec.registered.frames import frame_start
from oracle.codec.registered.protobuf import ProtobufAnswers
from oracle.codec.registered.writers import Writers
from oracle.planning.plan import Plan

WRITER = 7
"""The id of the writer's schema."""

ANSWERS = 8
"""The id of the schema of answers."""


def codec_of_avro(plan: Plan, schema: str) -> RegisteredCodec:
    """Return a codec that knows one writer's schema."""
    writers = Writers(plan, AVRO)
    writers.add(WRITER, "AVRO", schema, references=False)
    return RegisteredCodec(plan, writers, AvroAnswers(plan, ANSWERS))


def codec_of_protobuf(plan: Plan, schema: str) -> RegisteredCodec:
    """Return a codec that knows one writer's schema."""
    writers = Writers(plan, PROTOBUF)
    writers.add(WRITER, "PROTOBUF", schema, references=False)
    return RegisteredCodec(plan, writers, ProtobufAnswers(plan, ANSWERS))


def avro_body(schema: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    """Return a row as a client writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), dict(row))
    return frame_start(WRITER) + stream.getvalue()


def compiled(text: str, folder: Path, name: str) -> Any:
    """Return the class of a message of a .proto file, as Protobuf's own compiler has it."""
    (folder / "file.proto").write_text(text)
    line = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "--include_imports",
        f"-I{folder}",
        f"--descriptor_set_out={folder}/file.bin",
    ]
    subprocess.run([*line, str(folder / "file.proto")], check=True, timeout=120)
    pool = DescriptorPool()
    files = FileDescriptorSet.FromString((folder / "file.bin").read_bytes()).file
    for file in files:
        pool.Add(file)
    package = f"{files[-1].package}." if files[-1].package else ""
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}{name}"))


def decoded(codec: RegisteredCodec, bodies: Sequence[bytes | None]) -> DecodedBatch:
    """Return what a codec makes of bodies."""
    return codec.decode(Deliveries.of(Delivery(place, body, REGISTERED) for place, body in enumerate(bodies, 1)))
