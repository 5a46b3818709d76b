# `make run` and `make test` each do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test bench lint clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	touch $@

run: $(STAMP)
	$(BIN)/skelbench run slim --tokens 8 --preset quick

test: $(STAMP)
	$(BIN)/python -m pytest -q

bench: $(STAMP)
	$(BIN)/python -m benchmarks.prototype_loss
	$(BIN)/python -m benchmarks.mask_coverage
	$(BIN)/python -m benchmarks.synthetic_baselines
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.watch

lint: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ruff
	$(BIN)/ruff check skelbench plugins tests benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info
