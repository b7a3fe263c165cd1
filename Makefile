# Every target sets .venv up by itself when pyproject.toml or constraints.txt changed; only Python 3.11+ and make are needed.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help book test check faults bench data evidence readme lint clean setup install

BIN := .venv/bin
KEY := $(shell cat pyproject.toml constraints.txt | cksum) $(CURDIR)
# One process for each core, up to eight, with one thread each; tests of a file share its fixtures in one process.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 8

help:
	@echo "make book   build the book into _build/html"
	@echo "make test   run the tests; what make book built is walked too"
	@echo "make check  the quick answer: lint, and the tests that need no page and start no training"
	@echo "make faults try kills, full disks, damage and fuzzing; writes data/faults.json; ARGS=--short takes two minutes"
	@echo "make bench  measure the library against the obvious way; writes data/bench.json"
	@echo "make data   list the benchmarks; make data ARGS=pacs fetches one"
	@echo "make evidence  make the runs behind the book that are missing; ARGS=--list shows them"
	@echo "make readme write the README's figure and table of claims anew from the records"
	@echo "make lint   check code and notebooks, their security too"
	@echo "make clean  remove .venv and everything built"

book: setup
	@$(BIN)/jupyter-book build book/

test: setup
	@$(PYTEST) $(ARGS)

check: lint
	@$(PYTEST) -m 'not slow and not slurm and not gpu and not pages and not heavy' $(ARGS)

faults: setup
	@OMP_NUM_THREADS=1 $(BIN)/python tests/faults $(ARGS)

bench: setup
	@$(BIN)/python -m bench $(ARGS)

data: setup
	@$(BIN)/hypo data $(ARGS)

evidence: setup
	@$(BIN)/hypo evidence $(ARGS)

readme: setup
	@$(BIN)/python book/extensions/readme.py

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/bandit --quiet --configfile pyproject.toml --recursive hypo bench book/extensions
	@$(BIN)/nbstripout --verify book/*.ipynb

clean:
	@rm -rf .venv _build _runs .snakemake build *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@[ "$$(cat .venv/installed 2>/dev/null)" = "$(KEY)" ] || $(MAKE) --no-print-directory install

install:
	@python=; for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "hypo needs Python 3.11 or newer and found $$(python3 --version 2>/dev/null || echo none); install it, or name yours: make PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	$(BIN)/python -c 'import pip' 2>/dev/null || "$$python" -m venv --clear .venv || { \
	    echo "$$python cannot make virtual environments; install its venv module (on Debian: apt install python3-venv) and run make again" >&2; \
	    exit 1; \
	}
	@echo "Installing into .venv: 2 to 4 minutes and 6 GB the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[book,test,dev]'
	@echo "$(KEY)" > .venv/installed
