# Everything a newcomer needs: make setup, make demo, make test, make test-all, make lint.
PYTHON ?= python3
# torch first and pinned, so that no CUDA build is pulled where none is wanted; override TORCH= on a GPU machine.
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: setup demo test test-all lint format clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

demo: setup
	$(BIN)/oblivec demo

test: setup
	$(BIN)/python -m pytest -m "not slow and not browser"

test-all: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/pyright

format: setup
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist demo-output
