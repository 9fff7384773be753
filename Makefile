# Everything a newcomer needs: make setup, make demo, make test, make test-all, make lint, make results.
PYTHON ?= python3
# The CPU build of torch first, so that no CUDA build is pulled where none is wanted; where the package index has no such
# build, whatever torch it has. On a GPU machine: make setup TORCH=torch
TORCH ?= torch==2.13.0+cpu
BIN := .venv/bin

.PHONY: setup demo test test-all lint format results clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)" \
		|| $(BIN)/pip install --quiet "torch>=2.4,<3"
	$(BIN)/pip install --quiet --editable ".[dev]"
	$(BIN)/pip install --quiet --only-binary implicit --editable ".[foreign]" \
		|| echo "no ready-made implicit for this machine: the tests that factorise with it are skipped"
	touch $@

demo: setup
	$(BIN)/oblivec demo

test: setup
	$(BIN)/python -m pytest -m "not slow and not browser"

test-all: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/pyright

format: setup
	$(BIN)/ruff check --fix src tests

# The page of results, from the records that `oblivec reproduce NAME --out benchmarks/results/reproduce` leaves.
results: setup
	$(BIN)/python -m oblivec.experiments.results_page benchmarks/results/reproduce docs/RESULTS.md

clean:
	rm -rf .venv build dist demo-output
