# Everything runs in .venv, which the first target to need it makes from python3 and requirements/dev.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage browser screenshots clients providers examples torture peers bench check format lock clean

help: ## Say what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: install ## Watch an agent being killed and going on where it was.
	$(BIN)/holdfast demo

test: install ## Run the tests (ARGS="-k journal -x" goes to pytest).
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

coverage: install ## Run the tests and fail if core and engines are not covered.
	$(BIN)/python -m pytest --cov --cov-report=term --numprocesses 2 --dist worksteal $(ARGS)

browser: install ## See the page in a real Chromium (skipped where there is none).
	$(BIN)/python -m pytest tests/server/browser -rs --timeout 120 $(ARGS)

screenshots: install ## Make the pictures of the page in docs/images anew (needs chromium).
	$(BIN)/python -m tests.server.browser.screenshots docs/images

CLIENTS ?= $(or $(TMPDIR),/tmp)/holdfast-clients
clients: install ## Try Holdfast with clients nobody here wrote (downloads npm packages once).
	HOLDFAST_CLIENTS=$(CLIENTS) $(BIN)/python -m pytest tests/server/clients -rs $(ARGS)

providers: .venv-providers/.installed ## See that the model providers' own packages take our schemas.
	.venv-providers/bin/python -m pytest tests/server/tools/test_providers.py -rs $(ARGS)

examples: install .venv-frameworks/.installed ## Run every example: agents are killed, and nothing is lost or done twice.
	cd client_examples/frameworks && ../../.venv-frameworks/bin/mypy --strict --python-version 3.11 --cache-dir ../../.mypy_cache/frameworks .
	$(BIN)/python tests/client_examples/run_all.py

# SHORT=1 is what CI runs; the long form takes hours and can be done in parts: ARGS="--only kills soak".
torture: install ## Show that the promises hold when everything goes wrong (SHORT=1 for minutes).
	$(BIN)/python -m tests.torture.run $(if $(SHORT),--short) $(ARGS)

bench: install .venv-peers/.installed build/peers/.installed ## Measure beside the peers (QUICK=1 for the short form; ARGS="--job large").
	$(BIN)/python -m benchmarks.command_line $(if $(QUICK),--quick)
	@# A missed target ends with 1, after the charts are drawn.
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS); met=$$?; $(BIN)/python -m benchmarks.charts && exit $$met

peers: install .venv-peers/.installed build/peers/.installed ## Give one job to us and to servers like ours (downloads them once).
	$(BIN)/python -m tests.torture.peers $(ARGS)

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

.venv-frameworks/.installed: requirements/frameworks.txt
	$(PYTHON) -m venv --clear .venv-frameworks
	.venv-frameworks/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r $<
	@touch $@

.venv-peers/.installed: requirements/peers.txt
	$(PYTHON) -m venv --clear .venv-peers
	.venv-peers/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r $<
	@touch $@

# Without npm server-memory is left out, and whoever measures says so.
build/peers/.installed: benchmarks/peers/package.json benchmarks/peers/package-lock.json
	mkdir -p build/peers
	cp $^ build/peers/
	npm ci --prefix build/peers --ignore-scripts --no-audit --no-fund --silent \
		|| echo "npm is missing or cannot download: server-memory is left out"
	@touch $@

UV := .venv-lock/bin/uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--custom-compile-command "make lock" $(UPGRADE)

lock: $(UV) ## Pin what pyproject.toml asks for (UPGRADE=--upgrade for the newest).
	$(COMPILE) pyproject.toml --extra conformance --extra langgraph --group dev --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --constraint requirements/dev.txt --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra conformance --group build --group providers --constraint requirements/runtime.txt \
		--output-file requirements/providers.txt
	$(COMPILE) --group frameworks --output-file requirements/frameworks.txt
	$(COMPILE) --group peers --output-file requirements/peers.txt
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt

$(UV):
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

clean: ## Remove the environment and everything tools leave behind.
	rm -rf $(VENV) .venv-frameworks .venv-lock .venv-peers .venv-providers build dist htmlcov .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(wildcard server storage tests client_examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
