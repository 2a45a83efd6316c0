# Everything on a machine that has Python (3.11 or newer) and make:  make demo   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')

.PHONY: demo test test-all lint format bench check-theory clean help

help:
	@echo 'make demo          install, run experiments/quickstart.toml, write its figure and table to results/quickstart'
	@echo 'make test          install everything and run the tests (the slow ones: a sample)'
	@echo 'make test-all      ... and all the slow ones'
	@echo 'make lint          ruff and mypy'
	@echo 'make check-theory  the slow statistical checks of the papers'"'"' claims'
	@echo 'make bench         run-episodes per second, and the share of each kernel'
	@echo 'make clean         remove the virtual environment and the caches'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tabpo needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras; the exact versions come from constraints.txt.
$(VENV)/installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

demo: $(VENV)/installed-gymnasium
	$(BIN)/tabpo run experiments/quickstart.toml --output results/quickstart --workers $(WORKERS)

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not theory and (not slow or sample)'

test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not theory'

check-theory: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) -m theory -rP

lint: $(VENV)/installed-test $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.throughput

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
