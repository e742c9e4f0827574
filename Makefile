.DEFAULT_GOAL := help
.PHONY: help install check format test test-slow test-all test-thorough docs evidence demo people clean

# The first of these that is Python 3.11 or newer; another one with make PYTHON=...
PYTHON ?= $(shell for candidate in python3.11 python3 python; do \
    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)
BIN := .venv/bin
# Python may keep what it compiles: tests start many processes, and each would compile it anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadgroup

help: ## list what there is
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 15

install: .venv/installed ## make the environment .venv with what a run needs

# An environment whose Python is gone or too old is made anew, whatever its stamps say.
ifneq ($(shell .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo usable),usable)
.PHONY: .venv/installed .venv/installed-dev
endif

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

check: .venv/installed-dev ## format, lint, types, imports, nothing private of a library, words, width of documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.interfaces
	$(BIN)/python -m benchmarks.words
	$(BIN)/python docs/site/wrap.py --check

format: .venv/installed-dev ## format the sources and fix what the linter can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

test: .venv/installed-dev ## every contract, theorem and service at small size, in minutes; COVERAGE=1: they must cover 90%
	$(PYTEST) -m "not slow and not thorough"$(if $(COVERAGE), --cov --cov-report term)

test-slow: .venv/installed-dev ## the slow tests alone: services, printed commands, audits, on Ray and Docker where they are there
	$(PYTEST) -n 5 -m "slow and not thorough" # three wait, for services or containers, while two work

test-all: test test-slow ## all that CI tests, each test once: about 20 minutes

test-thorough: .venv/installed-dev ## many further cases of what slow tests try: about half an hour
	$(PYTEST) -m thorough

docs: .venv/installed-dev ## the documents as a site in build/docs, with pages of reference written from the code
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site docs build/docs
	@echo 'Open build/docs/index.html'

# What goes on where it was stopped comes first; then the others, in the order of the alphabet.
RESUMED := "figures 1" "figures 2" "figures 3" people synergy adaptation \
    "figures 1 --procedure printed --points 10K-short 90K-short" "figures 1 --procedure authors --points 10K-short 90K-short" \
    "figures 2 --procedure printed" "figures 2 --procedure authors" \
    "figures 3 --procedure printed" "figures 3 --procedure authors"
OTHERS = $(filter-out __init__ figures people synergy adaptation,$(sort \
    $(patsubst benchmarks/%.py,%,$(wildcard benchmarks/[a-z]*.py)) \
    $(patsubst benchmarks/%/__main__.py,%,$(wildcard benchmarks/*/__main__.py))))

evidence: .venv/installed-dev ## all benchmarks, which measure what the documents say: many hours; may be stopped and begun again
	@failed=; for name in $(RESUMED) $(OTHERS); do \
	echo "== $$name"; $(BIN)/python -m benchmarks.$$name || failed="$$failed, $$name"; done; \
	echo "== benchmarks.audits"; $(BIN)/python -m benchmarks.audits --scale 10 || failed="$$failed, audits"; \
	echo "== test-thorough"; $(PYTEST) -m thorough || failed="$$failed, test-thorough"; \
	test -z "$$failed" || { echo "not as it should be: $${failed#, }" >&2; exit 1; }

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
	  '                                               a smaller run in containers, with individuals beside the host' \
	  '  README.md                                    everything else'

people: install ## take part in a run yourself, in a browser, beside 200 invented people
	@$(BIN)/python -m deploy.people runs/people-$$(date +%Y%m%d-%H%M%S)

clean: ## remove the environment and all caches; runs/ stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
