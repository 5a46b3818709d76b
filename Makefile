# `make run`, `make test` and `make check` each do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CODE := skelbench plugins tests benchmarks docs

.PHONY: run test check lint format types rooms fix docs bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[test]"
	touch $@

$(VENV)/.checkers: $(VENV)/.installed
	$(PIP) --editable ".[check]"
	touch $@

$(VENV)/.writers: $(VENV)/.installed
	$(PIP) --editable ".[docs]"
	touch $@

run: $(VENV)/.installed
	$(BIN)/skelbench run slim --tokens 8 --preset quick

test: $(VENV)/.installed
	$(BIN)/python -m pytest -q

# What needs no data and no minutes: style, types, and the order of rooms that ARCHITECTURE.md gives.
check: lint format types rooms

lint: $(VENV)/.checkers
	$(BIN)/ruff check $(CODE)

format: $(VENV)/.checkers
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.checkers
	$(BIN)/mypy

rooms: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n0 --noconftest tests/test_rooms.py

# Mends what `make lint` and `make format` find, as far as ruff can.
fix: $(VENV)/.checkers
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

# The documentation as a site, site/index.html; a warning is an error. Needs no network once its tools are there.
docs: $(VENV)/.writers
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs site

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.prototype_loss
	$(BIN)/python -m benchmarks.mask_coverage
	$(BIN)/python -m benchmarks.synthetic_baselines
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.watch

clean:
	rm -rf $(VENV) build dist site jupyter_execute docs/generated *.egg-info
