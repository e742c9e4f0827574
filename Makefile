.DEFAULT_GOAL := help
.PHONY: help install check format test demo bench clean

# The first of these that is Python 3.11 or newer; another one with make PYTHON=...
PYTHON ?= $(shell for candidate in python3.11 python3 python; do \
    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)
BIN := .venv/bin
BENCHMARKS = $(filter-out __init__ __main__,$(patsubst benchmarks/%.py,%,$(wildcard benchmarks/[a-z]*.py)))

help: ## list what there is
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | expand -t 10

install: .venv/installed ## make the environment .venv with what a run needs

# Two stamps: what a run needs, and that with what tests and checks need. Neither installs again what the other one has.
.venv/installed: pyproject.toml constraints.txt
	@$(call install_with,figures)
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	@$(call install_with,figures$(comma)dev)
	@touch .venv/installed $@

comma := ,
define install_with
test -n "$(PYTHON)" || { echo "Tandem needs Python 3.11 or newer; say which with make PYTHON=..." >&2; exit 1; }; \
echo "Installing into .venv ..."; $(PYTHON) deploy/packaging/install.py .venv $(1)
endef

check: .venv/installed-dev ## format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev ## format the sources and mend what the linter can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

test: .venv/installed-dev ## all tests on two cores, with their coverage; what was skipped and why stands at the end
	$(BIN)/pytest -n 2 --dist loadgroup --ignore tests/audit --cov --cov-report term
	$(BIN)/pytest -n 2 --dist loadgroup tests/audit # many trials: tracing them would take longer than they do

demo: install ## run the scenario "ball" as real processes on this machine, then audit the run
	@folder=runs/demo-$$(date +%Y%m%d-%H%M%S) && \
	$(BIN)/referee run ball --seed 1 --deployment processes --output $$folder && \
	$(BIN)/referee audit $$folder && \
	printf '%s\n' '' \
	  'Where to look next:' \
	  "  ls $$folder         the run folder: scenario, result, transcript, every report" \
	  '  $(BIN)/referee list                      the shipped scenarios, protocols, mechanisms and learners' \
	  '  $(BIN)/referee plan ball                 how many people it needs, and why' \
	  '  $(BIN)/referee run ball --set agents.mechanism.epsilon=1' \
	  '                                               the same with half the privacy for the agents' \
	  '  docker compose up --build --exit-code-from run' \
	  '                                               the same in containers, on networks of their own' \
	  '  README.md                                    everything else'

bench: .venv/installed-dev ## the benchmarks that are one file each, one after the other: hours
	@failed=; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || failed="$$failed $$name"; done; \
	test -z "$$failed" || { echo "not as it should be:$$failed" >&2; exit 1; }

clean: ## remove the environment and all caches; runs/ stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
