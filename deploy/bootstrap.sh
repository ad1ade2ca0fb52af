#!/bin/sh
# Makes a virtual environment and installs the locked packages in it.
#   deploy/bootstrap.sh VENV run    the project with all it needs to run, the demonstration included
#   deploy/bootstrap.sh VENV dev    the tools for tests and checks, into a VENV that has `run`
# PYTHON names the interpreter. On Debian and Ubuntu the missing parts of Python are installed with apt-get.
set -eu

venv=$1
set_name=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# Runs a command; shows what it printed only if it fails.
quietly() {
  log=$(mktemp)
  if "$@" >"$log" 2>&1 </dev/null; then
    rm -f "$log"
  else
    status=$?
    cat "$log" >&2
    rm -f "$log"
    fail "Failed (status $status): $*"
  fi
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  for python in "${PYTHON:-python3}" python3.12 python3.11 python3.13; do
    if new_enough "$python"; then return; fi
  done
  fail "Perpetua needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3.12"
}

# Debian keeps venv and ensurepip in a package of their own.
ensure_venv_module() {
  if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then return; fi
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  command -v apt-get >/dev/null || fail "$python lacks the modules venv and ensurepip. Install them, then run make again."
  by_hand="Run this as root, then run make again:
  apt-get update && apt-get install -y $package"
  if [ "$(id -u)" = 0 ]; then
    as_root="env"
  elif command -v sudo >/dev/null; then
    as_root="sudo env"
  else
    fail "$python lacks the modules venv and ensurepip. $by_hand"
  fi
  say "Installing the Debian package $package ..."
  apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120"
  # An outdated list of some other repository need not stop the installation.
  $apt update >/dev/null 2>&1 </dev/null || say "apt-get update failed; going on with the package lists at hand."
  (quietly $apt install --no-install-recommends "$package") || fail "$by_hand"
}

pip_install() { quietly "$venv/bin/python" -m pip install --disable-pip-version-check "$@"; }

install_run() {
  find_python
  if ! { new_enough "$venv/bin/python" && "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; }; then
    ensure_venv_module
    say "Making $venv with $("$python" --version) ..."
    rm -rf "$venv"
    quietly "$python" -m venv "$venv"
  fi
  say "Installing the packages of requirements.lock (about a minute the first time) ..."
  pip_install --require-hashes -r "$here/requirements-build.lock"
  pip_install --require-hashes --no-build-isolation --use-pep517 -r "$root/requirements.lock"
  pip_install --no-deps --no-build-isolation -e "$root"
}

install_dev() {
  say "Installing the packages of deploy/requirements-dev.lock ..."
  pip_install --require-hashes --no-build-isolation --use-pep517 -r "$here/requirements-dev.lock"
}

case $set_name in
  run) install_run ;;
  dev) install_dev ;;
  *) fail "usage: deploy/bootstrap.sh VENV run|dev" ;;
esac
