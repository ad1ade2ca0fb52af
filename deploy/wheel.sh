#!/bin/sh
# Builds the source distribution and, from that alone, the wheel; then tries the wheel where nothing else of the project is.
#   deploy/wheel.sh VENV    VENV has `run`; what is built is in dist/, the environment for the trial in build/wheel
set -eu

venv=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
root=$PWD

rm -rf dist build/wheel
mkdir -p build/wheel
"$venv/bin/python" -m hatchling build -t sdist
tar -xzf dist/perpetua-*.tar.gz -C build/wheel
(cd build/wheel/perpetua-*/ && "$venv/bin/python" -m hatchling build -t wheel -d "$root/dist")

"$venv/bin/python" -m venv build/wheel/venv
pip="build/wheel/venv/bin/python -m pip --disable-pip-version-check --quiet"
$pip install --no-deps --require-hashes --only-binary :all: -r deploy/requirements-run.lock
$pip install --no-deps --no-index dist/perpetua-*.whl
$pip check

PATH="$root/build/wheel/venv/bin:$PATH"
mkdir build/wheel/trial && cd build/wheel/trial

perpetua --version
cat > model.toml <<'END'
[model]
name = "trial"
predictor = "classical"
epsilon = 4.0
alpha = 0.2
examples = 2000
[[model.features]]
name = "a"
END
cat > serve.toml <<'END'
[state]
folder = "state"
key_file = "key"
[source]
kind = "jsonl"
path = "queries.jsonl"
[sink]
kind = "jsonl"
path = "answers.jsonl"
END
awk 'BEGIN { print "a,label"; for (i = 0; i < 2000; i++) print i / 2000 "," (i > 200 && i < 1800) }' > rows.csv
printf '{"a":0.5}\n{"a":5}\n' > queries.jsonl
perpetua plan model.toml
perpetua init model.toml --data rows.csv --state state --key key
perpetua serve serve.toml
[ "$(grep -o '"label":[01]' answers.jsonl | tr '\n' ' ')" = '"label":1 "label":0 ' ]

python -I -c 'import oracle; print(oracle.__file__, oracle.plan("model.toml").epsilon)' | grep "^$root/build/wheel/venv/.* 4.0$"
ls "$root/dist"
