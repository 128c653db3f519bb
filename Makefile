# `make demo` and `make test` need nothing but Python 3.11 or newer: the first run
# makes an environment in .venv, later runs use it until pyproject.toml changes.

# Any of these will do; `make demo PYTHON=/path/to/python` names one.
PYTHON ?=
CANDIDATES = $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

VENV = .venv
BIN = $(VENV)/bin
# --quiet twice: errors only.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

# The model libraries start as many threads as there are cores, in every test process;
# with one each they do not wait for one another. LightGBM asks for all cores whatever
# OMP_NUM_THREADS says, but gets no more than OMP_THREAD_LIMIT.
ONE_THREAD = OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -q
# The tests of a file stay together, and so do the models that they share; whoever has
# nothing left to do takes over from others.
PARALLEL = -n auto --maxprocesses 4 --dist worksteal
TESTS_OF_KERNELS = tests/runtime tests/calibration/test_recursion.py tests/ordering \
    tests/sequential tests/anytime tests/pruning

# What Python compiles is kept whatever the environment says: the tests start it often.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-export test-engines test-oldest test-newest plain-python slow lint format docs compare papers release-check wheel clean

help:
	@echo "make demo    show on a small data set what spinney does"
	@echo "make test    lint, types, and all tests that take a few minutes together"
	@echo "make test-export  exported code on other compilers and processors"
	@echo "make test-engines  clusters and servers as real processes"
	@echo "make test-oldest  with the oldest versions of everything that are admitted"
	@echo "make test-newest  with the newest ones; PYTHON=... names the interpreter"
	@echo "make slow    the tests that take longer: slow, guarantee, benchmark"
	@echo "make lint    ruff and mypy only"
	@echo "make format  let ruff put the code into shape"
	@echo "make docs    the pages and the reference of all names, in build/docs"
	@echo "make compare measure spinney beside other engines, twenty minutes"
	@echo "make papers  the papers' tables and figures measured again, hours"
	@echo "make release-check  build the release, install it elsewhere, try it"
	@echo "make wheel   a wheel that carries compiled kernels for this Python"
	@echo "make clean   remove .venv and everything that was built"

demo: $(VENV)/ready-for-demo
	@$(BIN)/spinney demo

# Compiling takes one core for a minute or two: time for all that needs no compiled code.
test: $(VENV)/ready-for-test
	@$(MAKE) --no-print-directory --jobs=2 plain-python $(VENV)/compiled
	$(PYTEST) $(PARALLEL)

# Kernels as plain Python, where an index out of range is an error and not a wrong
# number.
plain-python: lint
	NUMBA_DISABLE_JIT=1 $(PYTEST) $(PARALLEL) $(TESTS_OF_KERNELS)

# Compile once here rather than in every process of the tests.
$(VENV)/compiled: $(VENV)/ready-for-test $(wildcard src/spinney/*/*.py src/spinney/*/*/*.py)
	@$(BIN)/spinney warm-up --quiet
	@touch $@

# What is not installed is skipped, with the reason.
EXPORT_TOOLS = gcc g++ clang tcc cppcheck arm-none-eabi-gcc qemu-system-arm avr-gcc simavr \
    qemu-s390x aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc s390x-linux-gnu-gcc wasm-ld \
    node chromium
test-export: $(VENV)/compiled
	@for tool in $(EXPORT_TOOLS); do command -v $$tool >/dev/null || missing=1; done; \
	if [ -n "$$missing" ]; then \
	    echo "Some targets will be skipped. On Debian, all tools are in: gcc g++ clang"; \
	    echo "tcc cppcheck gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"; \
	    echo "gcc-avr avr-libc simavr qemu-user gcc-aarch64-linux-gnu"; \
	    echo "gcc-riscv64-linux-gnu gcc-s390x-linux-gnu lld wasi-libc"; \
	    echo "libclang-rt-dev libclang-rt-dev-wasm32 nodejs chromium"; \
	fi
	$(PYTEST) $(PARALLEL) -rs -m "targets or not slow" tests/export

# Engines are large and pin what they need: in an environment of their own.
ENGINES = .venv-engines
test-engines: $(ENGINES)/ready $(VENV)/compiled
	$(ONE_THREAD) SPINNEY_MLSERVER_PYTHON=$(CURDIR)/$(ENGINES)/mlserver/bin/python \
	    $(ENGINES)/bin/python -m pytest -q -rs \
	    -m "engines or not engines" tests/integrations

$(ENGINES)/ready: pyproject.toml | $(BIN)/python
	@echo "Installing the engines (once; a few minutes)."
	@$(BIN)/python -m venv $(ENGINES)
	@$(ENGINES)/bin/python -m pip install --quiet --quiet \
	    --disable-pip-version-check --editable '.[test,dask,spark,ray,mlflow]' \
	    fastapi prometheus_client uvicorn
	@$(BIN)/python -m venv $(ENGINES)/mlserver
	@$(ENGINES)/mlserver/bin/python -m pip install --quiet --quiet \
	    --disable-pip-version-check --editable . mlserver pandas
	@touch $@

# All that pyproject.toml names, in the oldest version that it admits, and in the newest.
# pip cannot choose the oldest, uv can. Old libraries are full of what newer ones call
# deprecated, so there such warnings are no errors.
OTHERS = .venv-oldest .venv-newest
RESOLUTION_oldest = lowest-direct
RESOLUTION_newest = highest
PYTEST_oldest = -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning \
    -W ignore::FutureWarning
test-oldest test-newest: test-%: .venv-%/ready
	SPINNEY_CACHE_DIR=$(CURDIR)/.venv-$*/kernels $(ONE_THREAD) \
	    .venv-$*/bin/python -m pytest -q $(PARALLEL) $(PYTEST_$*) $(TESTS)

.venv-%/ready: pyproject.toml | $(BIN)/python
	@echo "Installing the $* versions of everything (once; a few minutes)."
	@$(if $(PYTHON),$(PYTHON),$(BIN)/python) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --quiet --disable-pip-version-check uv
	@.venv-$*/bin/uv pip install --quiet --python .venv-$*/bin/python --upgrade \
	    --resolution $(RESOLUTION_$*) --editable '.[test]'
	@.venv-$*/bin/uv pip freeze --quiet --python .venv-$*/bin/python > .venv-$*/versions
	@touch $@

slow: $(VENV)/compiled
# pytest ends with 5 if no test is marked so.
	$(PYTEST) -m "slow or guarantee or benchmark" || [ $$? -eq 5 ]
# What Hypothesis tests, with twenty times as many examples.
	SPINNEY_EXAMPLES=1000 $(PYTEST) $(PARALLEL) -m hypothesis

lint: $(VENV)/ready-for-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/ready-for-test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/ready-for-test
	@$(PIP_INSTALL) --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -b html -c docs . build/docs

compare: $(VENV)/ready-for-test
	@$(PIP_INSTALL) -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.compare.run

# SPINNEY_DATA names a folder of data sets; without it they come from OpenML.
papers: $(VENV)/ready-for-test
	$(BIN)/python -m benchmarks.papers.solver_speed
	$(BIN)/python -m benchmarks.papers.sequential
	$(BIN)/python -m benchmarks.papers.cascade
	$(BIN)/python -m benchmarks.papers.anytime
	$(BIN)/python -m benchmarks.papers.pruning
	$(BIN)/python -m benchmarks.papers.results

release-check: $(VENV)/ready-for-test
	.ci/release-check $(BIN)/python

# LEVELS="x86-64-v3 x86-64-v4" names the kinds of processors.
wheel: $(VENV)/ready-for-test
	.ci/wheel-with-kernels $(BIN)/python

clean:
	rm -rf $(VENV) $(ENGINES) $(OTHERS) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	    spinney-demo.html
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@chosen=; \
	for python in $(CANDIDATES); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	        2>/dev/null; then chosen="$$python"; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	    echo "spinney needs Python 3.11 or newer; none was found among: $(CANDIDATES)."; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.12 demo"; \
	    exit 1; \
	fi >&2; \
	if ! "$$chosen" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$chosen has no venv module. Install it (on Debian and Ubuntu the"; \
	    echo "package python3-venv), or name another Python: make PYTHON=... demo"; \
	    exit 1; \
	fi >&2; \
	echo "Making an environment in $(VENV) with $$("$$chosen" --version)."; \
	"$$chosen" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/ready-for-demo: pyproject.toml | $(BIN)/python
	@echo "Installing spinney and what the demo needs (once; about a minute)."
	@$(PIP_INSTALL) --editable '.[cli,prune,report]'
	@touch $@

$(VENV)/ready-for-test: pyproject.toml | $(BIN)/python
	@echo "Installing spinney and what the tests need (once; a few minutes)."
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/ready-for-demo
