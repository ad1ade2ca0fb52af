#!/bin/sh
# Makes the lock files from pyproject.toml, with the uv that it installs into the virtual environment $1.
# Versions that still fit are kept; UPGRADE=1 takes the newest ones allowed.
#   requirements.lock               what runs: the project's dependencies, learners, schemas, otel and the demo extra
#   deploy/requirements-build.lock  what builds: the project itself, and dependencies that come as source
#   deploy/requirements-dev.lock    both of these, and the tools for tests and checks
#   deploy/requirements-docs.lock   what makes the site of the pages
#   deploy/requirements-charts.lock Go, where there is none: it builds what the tests of charts run
#   deploy/requirements-run.lock    what the image installs: the project's dependencies, learners, schemas and otel, without the demo
# Versions are the same in all six, and on every Python version.
set -eu

venv=$1
cd "$(dirname "$0")/.."

"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.7,<1'

# uv does not read pip's settings.
index=$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null || true)
index=${PIP_INDEX_URL:-$index}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"

compile() {
  "$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
    --no-header --no-emit-index-url --no-emit-find-links ${UPGRADE:+--upgrade} "$@"
}

compile pyproject.toml --extra demo --extra learners --extra schemas --extra otel --group build --group dev -o deploy/requirements-dev.lock
compile pyproject.toml --extra demo --extra learners --extra schemas --extra otel -c deploy/requirements-dev.lock -o requirements.lock
compile --group pyproject.toml:build -c deploy/requirements-dev.lock -o deploy/requirements-build.lock
compile --group pyproject.toml:docs -c deploy/requirements-dev.lock -o deploy/requirements-docs.lock
compile pyproject.toml --extra learners --extra schemas --extra otel -c deploy/requirements-dev.lock -o deploy/requirements-run.lock
compile --group pyproject.toml:charts -c deploy/requirements-dev.lock -o deploy/requirements-charts.lock
