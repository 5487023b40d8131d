# `make run` and `make test` set up all they need on a machine with Python 3.11 or newer and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help run test check format proto clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.simulation ## Train four real hospitals together on Flower's simulation engine
	@$(BIN)/fedct simulate $(ARGS)

test: $(VENV)/.dev check ## Run everything that CI checks
	@$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.dev ## Lint, types, import layers, generated code
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## Format the code
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

proto: $(VENV)/.dev ## Generate code from labels.proto
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. fedct_flwr/wire/labels.proto

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache

$(VENV)/.simulation: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[simulation]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) with development tools (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.simulation
