# `make run`, `make test` and `make check` each do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Folder with wheels from `make wheels`, to install from without network.
WHEELS ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)/constraints.txt \
	$(if $(WHEELS),--no-index --find-links $(WHEELS))
CODE := skelbench plugins tests benchmarks docs

.PHONY: run test check lint format types layers text fix docs bench gpu wheels clean

# If PYTHON has torch 2.9 or newer and it finds a GPU, this torch is used; else torch is installed like the rest.
# own.pth: for a PYTHON in a virtual environment, --system-site-packages shows the packages of its base Python only.
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

# Checks without data: style, types, the order of packages in ARCHITECTURE.md, and the text.
check: lint format types layers text

lint: $(VENV)/.checkers
	$(BIN)/ruff check $(CODE)

format: $(VENV)/.checkers
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.checkers
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n0 --noconftest tests/test_layers.py

text: $(VENV)/.installed
	$(BIN)/python -m benchmarks.prose

# Fixes the findings of `make lint` and `make format` that ruff can fix.
fix: $(VENV)/.checkers
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

# Builds the documentation, site/index.html; a warning is an error. Needs no network when its tools are installed.
docs: $(VENV)/.writers
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs site

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.prototype_loss
	$(BIN)/python -m benchmarks.mask_coverage
	$(BIN)/python -m benchmarks.synthetic_baselines
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.watch

# Tests and timings on a GPU, at most nine minutes; keep gpu.json in results/reference/.
gpu: $(VENV)/.installed
	$(BIN)/python -m benchmarks.gpu --output gpu.json

# Downloads packages for `make gpu WHEELS=folder` on a machine without network that has torch: see the script.
wheels:
	PYTHON=$(PYTHON) benchmarks/wheels.sh $(or $(WHEELS),wheels)

clean:
	rm -rf $(VENV) build dist site jupyter_execute docs/generated *.egg-info
