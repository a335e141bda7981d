# Everything runs in .venv, which the first target to need it makes from python3 and requirements/dev.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage check format lock clean

help: ## Say what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: install ## Show a task that is killed and goes on where it was.
	$(BIN)/python client_examples/killed_and_resumed.py

test: install ## Run the tests (ARGS="-k journal -x" goes to pytest).
	$(BIN)/python -m pytest $(ARGS)

coverage: install ## Run the tests and fail if core and engines are not covered.
	$(BIN)/python -m pytest --cov --cov-report=term $(ARGS)

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

UV := .venv-lock/bin/uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)

lock: $(UV) ## Pin what pyproject.toml asks for (UPGRADE=--upgrade for the newest).
	$(COMPILE) pyproject.toml --extra conformance --group dev --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --constraint requirements/dev.txt --output-file requirements/runtime.txt
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt

$(UV):
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

clean: ## Remove the environment and everything tools leave behind.
	rm -rf $(VENV) .venv-lock build dist htmlcov .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(wildcard server storage tests client_examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
