.PHONY: install
PYTHON ?= python3.11
BIN := .venv/bin

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,figures]'
	touch $@
