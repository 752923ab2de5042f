# One line a target. Everything runs in .venv, which `make setup` makes and keeps up to date.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
ARGS ?=

.PHONY: help setup run test prove lint format check upstream bench accept-ab never-slower coverage clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/'

$(VENV)/ready: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV)

setup: $(VENV)/ready ## make the virtual environment; OpenBLAS and g++ where apt and root are at hand

run: setup ## serve the default model on 127.0.0.1:8080 (ARGS="-m X.gguf --port 9000" for more)
	$(BIN)/stoker-server $(ARGS)

test: setup ## every test at reduced sample counts
	$(BIN)/python -m pytest -q -m "not slow and not metal" $(ARGS)

prove: setup ## every test at full size, with coverage
	$(BIN)/python -m pytest -q -m "not metal" --cov --cov-report=term $(ARGS)

lint: setup ## style, types, import contracts
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/basedpyright && $(BIN)/lint-imports

format: setup ## rewrite to the house style
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

check: setup ## compare a running server with llama-server's recordings (ARGS="--url http://127.0.0.1:8080")
	$(BIN)/python compat/check.py $(ARGS)

upstream: setup ## llama.cpp's own server tests, fetched (about 20 minutes; ARGS="completion" for one file)
	$(BIN)/python compat/upstream.py --server $(BIN)/stoker-server $(ARGS)

bench: setup ## measure a running server (ARGS="--against http://127.0.0.1:9000")
	$(BIN)/stoker bench $(ARGS)

accept-ab: setup ## each acceptance rule against its closed form, with two thirds of the model as its drafter (minutes)
	$(BIN)/stoker accept-ab $(ARGS)

never-slower: setup ## a drafter that is never right against plain decoding, on the default model (minutes)
	$(BIN)/python tests/benchmarks/never_slower.py $(ARGS)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
