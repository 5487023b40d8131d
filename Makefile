# `make run` and `make test` set up all they need on a machine with Python 3.11 or newer and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# What the images are built from: one with Python 3.11, one with nginx (here the stage that takes Debian's packages).
# With a digest, as BASE=python:3.11-slim-bookworm@sha256:..., it can be no other image.
BASE ?= python:3.11-slim-bookworm
GATEWAY_BASE ?= nginx
IMAGES ?= fedct
TAG ?= latest
# Bytes of the longest message that the gateway takes; see coordinator.toml.
MAX_MESSAGE ?= 2000000
# Extras for the agents: torch, boost, rules, vision, language, privacy and others of docker/lock, with commas between them.
# One test with containers needs privacy.
EXTRAS ?= $(if $(filter test-deploy,$(MAKECMDGOALS)),privacy)
WHEELHOUSE := build/wheelhouse
# Builds the project's wheel, with nothing but what docker/locks/build.txt names.
BUILDER := build/builder
SBOM := build/sbom
SOURCES := $(shell find fedct_flwr server_app client_app -name __pycache__ -prune -o -type f -print)

.PHONY: help run screenshots test test-flower test-newest test-all mutate fuzz check size format proto lock clean wheelhouse images bundle hub up down run-deployed test-deploy docs

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.simulation ## Train four real hospitals together, on eight splits of their data
	@$(BIN)/fedct simulate $(ARGS)

test: $(VENV)/.dev check ## Run the tests of every change (minutes)
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: $(VENV)/.dev check ## Run all tests but those with containers, before a release
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "not deploy and not cluster" $(ARGS)
	@$(BIN)/python -m pytest -m cluster tests/flower/test_ray_cluster.py

mutate: $(VENV)/.dev ## Plant 100 faults, one at a time, and require that the tests find each
	@$(BIN)/python tests/mutate.py $(ARGS)

# Flower of another version, over what is installed in $(VENV).
FLOWER = build/flower-$(VERSION)

test-flower: $(VENV)/.dev ## Test with another version of Flower: VERSION=1.41.0
	@test -n "$(VERSION)" || { echo "say which: make test-flower VERSION=1.41.0"; exit 2; }
	@$(BIN)/python -m venv $(FLOWER)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(FLOWER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
	@$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check "flwr==$(VERSION)"
	@$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(FLOWER)/bin/python -m pytest -m "" tests/flower tests/processes/test_coordinated_runs.py $(ARGS)

# Without constraints, in an environment of its own.
NEWEST = build/newest-$(notdir $(PYTHON))

test-newest: ## Test with the newest versions of all packages: PYTHON=python3.13
	@$(PYTHON) -m venv $(NEWEST)
	@$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --editable '.[dev]'
	@$(NEWEST)/bin/python -m pytest tests/flower tests/learners tests/models tests/simulation tests/test_hundred_lines.py $(ARGS)

fuzz: $(VENV)/.dev ## Send 100,000 mutated messages to the silo's gate (minutes)
	@FEDCT_FUZZ=100000 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile \
		tests/hospital/test_gate_fuzz.py

check: $(VENV)/.dev ## Lint, types, import layers, generated code
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python .ci/size.py --check

size: ## Print lines of code by folder, their budget, and what makes the package hard to read
	@$(PYTHON) .ci/size.py $(if $(docstrings),--docstrings)

format: $(VENV)/.dev ## Format the code
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.docs ## Write the documentation to build/site, without a network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Documentation: build/site/index.html"

proto: $(VENV)/.dev ## Generate code from labels.proto
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. fedct_flwr/wire/labels.proto

screenshots: $(VENV)/.dev ## Make the pictures of the report in the documentation
	@$(BIN)/python docs/screenshots.py

lock: $(VENV)/.dev ## Write docker/locks anew, with the versions of constraints.txt
	@docker/lock $(BIN)/uv

wheelhouse: $(WHEELHOUSE)/SHA256SUMS ## Collect what the images need

images: wheelhouse ## Build the images and their SBOMs, without a network
	@$(PYTHON) docker/wheelhouse.py verify $(WHEELHOUSE)
	@docker/images $(WHEELHOUSE) $(SBOM) $(IMAGES) $(TAG) $(BASE) $(GATEWAY_BASE) $(MAX_MESSAGE)

bundle: images ## Write a silo's images, SBOMs and licences to one file for hospitals without internet
	@docker/bundle $(SBOM) $(IMAGES) $(TAG) build/fedct-bundle.tar

hub: $(VENV)/.dev ## Write the app to build/hub for Flower Hub, as PUBLISHER=ACCOUNT
	@$(BIN)/python docker/hub.py build/hub $(PUBLISHER)

up: images ## Start a coordinator and four hospitals in containers
	@docker compose up --detach --wait

run-deployed: ## Train the four hospitals that `make up` has started
	@docker compose exec $$([ -t 0 ] && [ -t 1 ] || echo --no-TTY) superexec fedct coordinator run /app/coordinator --scores $(ARGS)

down: ## Stop the containers; their keys, logs and models stay in volumes
	@docker compose down

# What of the tests with containers is run: all with DEPLOYED=deploy.
DEPLOYED ?= deploy and not slow

test-deploy: $(VENV)/.dev images ## Test with real containers
	@$(BIN)/python -m pytest -m "$(DEPLOYED)" tests/deploy $(ARGS)

clean: ## Remove the virtual environment, the wheelhouse, the documentation and all caches
	rm -rf $(VENV) $(WHEELHOUSE) $(BUILDER) $(SBOM) build/fedct-bundle.tar build/hub build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.simulation: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[simulation,report]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) with development tools (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.simulation $(VENV)/.docs

$(VENV)/.docs: pyproject.toml constraints.txt
	@echo "Installing what writes the documentation into $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[docs]'
	@touch $@

$(BUILDER)/.installed: docker/locks/build.txt
	@$(PYTHON) -m venv $(BUILDER)
	@$(BUILDER)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
		--requirement docker/locks/build.txt
	@touch $@

$(WHEELHOUSE)/.project: pyproject.toml README.md LICENSE $(wildcard docker/silo/compose*.yaml) $(SOURCES) | $(BUILDER)/.installed
	@rm -rf $(WHEELHOUSE)/project && mkdir -p $(WHEELHOUSE)
	@$(BUILDER)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--wheel-dir $(WHEELHOUSE)/project .
	@touch $@

# Anew with other requirements or extras, and not with every change of the code.
$(WHEELHOUSE)/.wheels-$(EXTRAS): pyproject.toml constraints.txt docker/collect docker/locks/agent.txt docker/locks/coordinator.txt \
		docker/locks/sbom.txt \
		| $(WHEELHOUSE)/.project
	@echo "Collecting wheels in $(WHEELHOUSE) (once, about a minute) ..."
	@rm -f $(WHEELHOUSE)/.wheels-*
	@docker/collect wheels $(WHEELHOUSE) $(BUILDER)/bin/python \
		"$$(echo $(WHEELHOUSE)/project/*.whl)$(if $(EXTRAS),[$(EXTRAS)])"
	@touch $@

# Not needed with an image that has nginx.
$(WHEELHOUSE)/.nginx: docker/collect | $(WHEELHOUSE)/.project
	@$(if $(filter nginx,$(GATEWAY_BASE)),docker/collect nginx $(WHEELHOUSE)/nginx $(BASE))
	@touch $@

# What was collected, as it is compared with before each build.
$(WHEELHOUSE)/SHA256SUMS: $(WHEELHOUSE)/.project $(WHEELHOUSE)/.wheels-$(EXTRAS) $(WHEELHOUSE)/.nginx docker/wheelhouse.py
	@$(PYTHON) docker/wheelhouse.py record $(WHEELHOUSE)
