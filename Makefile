# `make run`, `make test` and `make check` each do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A folder of wheels, from `make wheels`, to install from where there is no network.
WHEELS ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)/constraints.txt \
	$(if $(WHEELS),--no-index --find-links $(WHEELS))
CODE := skelbench plugins tests benchmarks docs

.PHONY: run test check lint format types layers fix docs bench gpu wheels clean

# A torch of PYTHON's own, 2.9 or newer, that finds a GPU is taken as it is; else torch is installed like the rest.
# own.pth: where PYTHON is itself of a virtual environment, --system-site-packages shows not that one but what is below it.
$(VENV)/.installed: pyproject.toml constraints.txt
	own=$$($(PYTHON) -c 'import torch; v = torch.__version__; new = [*map(int, v.split(".")[:2])] >= [2, 9]; \
		print(v if new and torch.cuda.is_available() else "")' 2>/dev/null || true); \
	$(PYTHON) -m venv $${own:+--system-site-packages} $(VENV) && \
	if [ "$$own" ]; then $(PYTHON) -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
		> "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/own.pth"; fi && \
	if [ "$$own" ]; then \
		grep -Ev '^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==' constraints.txt; echo "torch==$$own"; \
	else cat constraints.txt; fi > $(VENV)/constraints.txt
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

# What needs no data and no minutes: style, types, and the order of packages that ARCHITECTURE.md gives.
check: lint format types layers

lint: $(VENV)/.checkers
	$(BIN)/ruff check $(CODE)

format: $(VENV)/.checkers
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.checkers
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n0 --noconftest tests/test_layers.py

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

# Wherever there is a GPU, first of all: at most nine minutes, and gpu.json, to be kept under results/reference/.
gpu: $(VENV)/.installed
	$(BIN)/python -m benchmarks.gpu --output gpu.json

# What `make gpu WHEELS=folder` needs on a machine without network but with a torch of its own: see the script.
wheels:
	PYTHON=$(PYTHON) benchmarks/wheels.sh $(or $(WHEELS),wheels)

clean:
	rm -rf $(VENV) build dist site jupyter_execute docs/generated *.egg-info
