SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
BUILD_INPUTS := pyproject.toml setup.py $(wildcard herdcli/fast/*.pyx herdcli/fast/*.pxi herdcli/fast/*.h)

# The papers' data sets: scripts/ read them from the folder HERD_DATA, by default the user's cache folder (`herd data --where`).
ifneq ($(wildcard ../shared/data),)
export HERD_DATA ?= $(abspath ../shared/data)
endif
RESULTS ?= results

.PHONY: help site demo test test-rest test-all examples verify cluster-test mutants torture sanitize lint bench manual picture digits lock clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

demo: $(VENV)/installed  ## install into .venv, learn an RBM of the digits and evaluate it
	@case "$$($(BIN)/herd --version)" in \
	  *python*) echo "herd uses its NumPy loops: nothing was compiled when it was installed (is gcc there?)";; \
	  *) echo "herd uses its compiled loops";; \
	esac
	$(BIN)/herd fit-rbm data/digits.h5 | $(BIN)/herd eval

test: $(VENV)/installed-dev  ## each command, algorithm and promise once, on the compiled loops; says what it leaves out
	$(BIN)/pytest -q -n $(WORKERS) --part quick
	@echo "left to make test-rest: further cases of these tests, the longer tests of tests/left_out.txt, and the run on the NumPy loops"

test-rest: $(VENV)/installed-dev  ## the fast tests that `make test` leaves out, and those of the loops on the NumPy loops
	$(BIN)/pytest -q -n $(WORKERS) --part rest
	@if test "$$($(BIN)/python -I -c 'from herdcli import fast; print(fast.loops_in_use())')" != python; then \
	  echo "== tests on the python kernels"; \
	  HERD_KERNELS=python $(BIN)/pytest -q -n $(WORKERS); \
	fi

test-all: test test-rest  ## the whole of the fast tests, on both kinds of loops

examples: $(VENV)/installed-dev  ## the examples of the guide, the manual and the help texts
	$(BIN)/pytest -q -n $(WORKERS) -m "examples and not slow" tests/test_readme.py tests/test_docs.py tests/cli/frame/test_console.py \
		tests/python/test_notebook.py

verify: $(VENV)/installed-dev  ## the slow statistical and full-size checks
	$(BIN)/pytest -q -n $(WORKERS) -m slow

cluster-test: $(VENV)/installed-dev  ## shards on Dask workers (herdcli[dask]) and on a real Slurm of three nodes (Debian: slurm-wlm, munge)
	$(BIN)/pytest -q -n 0 -rs -m "cluster and not slow" tests/cluster

mutants: $(VENV)/installed-dev  ## do the tests bite?  COUNT=400 changes of operators, constants and comparisons; long
	$(BIN)/python scripts checks/mutants --count $(or $(COUNT),400)

torture: $(VENV)/installed-dev  ## hostile files, failing calls, kills, races; SECONDS=3600 for more of them; needs cc
	$(BIN)/python scripts torture $(if $(SECONDS),--seconds $(SECONDS),--check)

sanitize: $(VENV)/installed-dev  ## the compiled loops under AddressSanitizer and UBSan: their tests, hostile files; needs gcc
	$(BIN)/python scripts checks/sanitize

lint: $(VENV)/installed-dev  ## ruff (format and rules), mypy --strict and the prose of pages, help and messages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict herdcli
	$(BIN)/python scripts dev/check_prose

bench: $(VENV)/installed-bench  ## the benchmarks behind every claim of speed
	@for script in $$($(BIN)/python scripts | sed -n 's#^\(bench/[^ ]*\).*#\1#p' | grep -v _peers$$); do echo "== $$script"; $(BIN)/python scripts $$script; done

ifneq ($(filter grouped-target,$(.FEATURES)),)
include results.mk
else
data results quick check-results check-quick nightly:
	@echo "make $@ needs GNU make 4.3 or newer, and this is $(MAKE_VERSION)" >&2; exit 1
endif

manual: $(VENV)/installed-dev  ## docs/commands, docs/man, docs/format.md and the types of the Python functions from the commands themselves
	$(BIN)/python scripts dev/make_manual
	$(BIN)/python scripts dev/make_stubs

picture: $(VENV)/installed-dev  ## docs/pipeline.svg, the picture at the head of the README, from the pipeline that it shows
	$(BIN)/python scripts dev/make_pipeline_picture docs/pipeline.svg

digits: $(VENV)/installed-dev  ## make data/digits.h5 again from scikit-learn's copy
	$(BIN)/pip install --quiet scikit-learn
	$(BIN)/python scripts dev/make_digits data/digits.h5

site:  ## build/site from docs/, links checked: mkdocs-material, formulas as MathML
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock:  ## write requirements-ci.txt anew from the newest versions
	scripts/dev/lock.sh $(PYTHON) requirements-ci.txt

clean:  ## remove what was built, .venv included
	rm -rf $(VENV) build dist *.egg-info herdcli/fast/*.so

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "herd needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1): try make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BUILD_INPUTS) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/installed-dev: $(BUILD_INPUTS) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,plot]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: $(BUILD_INPUTS) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,plot,bench,ica]'
	@touch $@ $(VENV)/installed $(VENV)/installed-dev
