# Everything runs in .venv, which the first target that needs it makes.
#   PYTHON         interpreter to make it with: python3.11 or newer
#   RUNTIME_CACHE  folder for downloaded weights, outside the repository

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
RUNTIME_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/runtime
BIN := .venv/bin
SMOLLM2 := $(RUNTIME_CACHE)/SmolLM2-135M-Instruct.Q4_1.gguf
export RUNTIME_CACHE

.DEFAULT_GOAL := help
.PHONY: help demo weights test lint format wheel clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/installed $(SMOLLM2) ## Set up, fetch a small model and generate text with it
	@$(BIN)/runtime generate $(SMOLLM2) --chat --max-tokens 48 --temperature 0 \
	  --prompt "What is the capital of France?" \
	  --prompt "Write one sentence about the sea."

weights: $(SMOLLM2) ## Fetch the small model that the demo and the tests use

test: .venv/tested ## Set up and pass the tests
	$(BIN)/pytest -n 2

lint: .venv/developed ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/developed ## Format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: .venv/tested ## Build the source distribution and the wheel into dist/
	$(BIN)/python -m build

clean: ## Remove the environment and build products
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than Python 3.11; set PYTHON" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu]"
	@touch $@

.venv/tested: .venv/installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu,test]"
	@touch $@

.venv/developed: .venv/tested
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu,dev]"
	@touch $@

$(SMOLLM2): | .venv/bin/python
	$(BIN)/python scripts/fetch_smollm2.py $@
