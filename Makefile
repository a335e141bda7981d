# Everything runs in .venv, which the first target to need it makes from python3 and requirements/dev.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage clients providers torture bench check format lock clean

help: ## Say what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: install ## Watch an agent being killed and going on where it was.
	$(BIN)/holdfast demo

test: install ## Run the tests (ARGS="-k journal -x" goes to pytest).
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

coverage: install ## Run the tests and fail if core and engines are not covered.
	$(BIN)/python -m pytest --cov --cov-report=term --numprocesses 2 --dist worksteal $(ARGS)

CLIENTS ?= $(or $(TMPDIR),/tmp)/holdfast-clients
clients: install ## Try Holdfast with clients nobody here wrote (downloads npm packages once).
	HOLDFAST_CLIENTS=$(CLIENTS) $(BIN)/python -m pytest tests/server/clients -rs $(ARGS)

providers: .venv-providers/.installed ## See that the model providers' own packages take our schemas.
	.venv-providers/bin/python -m pytest tests/server/tools/test_providers.py -rs $(ARGS)

# The editors at full length, then crashes; SHORT=1 is what CI runs.
torture: install ## Show that the promises hold when everything goes wrong (SHORT=1 for minutes).
	HOLDFAST_EDITS=$(if $(SHORT),100,500) $(BIN)/python -m pytest tests/storage/test_editors.py \
		-k while_agents_save --numprocesses 2 --timeout 900

bench: install ## Measure (QUICK=1 for the short form).
	$(BIN)/python -m benchmarks.step_cost $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.wire $(if $(QUICK),--quick)

check: install ## Check format, lint, types and who imports whom.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: install ## Put every file into the format that check asks for.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(VENV)/.installed ## Make .venv with all that is needed to develop and test.

# Each stamp is written last, so an install that was cut short is done again.
$(VENV)/.requirements: requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.requirements pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv-providers/.installed: requirements/providers.txt pyproject.toml
	$(PYTHON) -m venv --clear .venv-providers
	.venv-providers/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r $<
	.venv-providers/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation --editable .
	@touch $@

UV := .venv-lock/bin/uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)

lock: $(UV) ## Pin what pyproject.toml asks for (UPGRADE=--upgrade for the newest).
	$(COMPILE) pyproject.toml --extra conformance --group dev --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --constraint requirements/dev.txt --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra conformance --group dev --group providers --constraint requirements/dev.txt \
		--output-file requirements/providers.txt
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt

$(UV):
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

clean: ## Remove the environment and everything tools leave behind.
	rm -rf $(VENV) .venv-lock .venv-providers build dist htmlcov .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(wildcard server storage tests client_examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
