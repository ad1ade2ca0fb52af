#!/bin/sh
# Runs a demonstration over a Kafka broker of its own: deploy/kafka/demo.sh VENV COMMAND..., which is given --kafka
set -eu

venv=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
broker=build/kafka-demo-broker
tool() { "$venv/bin/python" "$here/broker.py" "$@" --folder "$broker"; }

rm -rf "$broker"
mkdir -p build
trap 'tool stop >/dev/null 2>&1 || true' EXIT
trap 'exit 130' INT TERM
printf 'Starting a Kafka broker on this machine ...\n'
started=$(tool start --die-with $$)
servers=$(printf '%s\n' "$started" | sed -n 's/^bootstrap.servers=//p')
"$@" --kafka "$servers"
