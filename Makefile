# Set-up and the daily commands. Everything is installed into $(VENV), nothing outside this folder; what is there already is not done again.
#
#   make train                     a Relational Memory Core learns "nth farthest"; ARGS="ladder --seed 1" is passed on, `make train ARGS=--help`
#   make test                      the test suite; ARGS="-k memory" is passed on
#   make lint                      ruff
#   make lab                       opens the chapters in JupyterLab
#   make chapters                  makes the notebooks from chapters/source/; ARGS="04 07": these; ARGS=--help
#   make site                      builds the website into site/_build/html: chapters, tasks, results, reference
#   make bench                     measures on this machine (about twenty minutes, leave it alone); ARGS=--quick: a first look
#   make clean                     away with the virtual environment, caches and builds; runs/ is kept
#
# Any Python from 3.11 will do; PYTHON=python3.12 says which one the virtual environment is made with.

VENV := .venv
PYTHON ?=
ARGS ?=
python := $(VENV)/bin/python
usable := import sys; sys.exit(sys.version_info < (3, 11))

# An environment that cannot run (half made, moved, its Python removed) counts as absent, and so does one of another Python than asked for.
absent := $(shell $(python) -c 'import pip; $(usable)' >/dev/null 2>&1 || echo environment)
ifneq ($(PYTHON),)
ifneq ($(shell { $(PYTHON) -VV; } 2>/dev/null),$(shell { $(python) -VV; } 2>/dev/null))
absent := environment
endif
endif

.PHONY: help train test lint lab chapters site bench clean environment
.NOTPARALLEL:

help:
	@sed -n 's/^#   //p' Makefile

train: $(VENV)/installed
	$(python) -m tinyrmc.train nth_farthest $(ARGS)

test: $(VENV)/installed-dev
	$(python) -m pytest $(ARGS)

lint: $(VENV)/installed-dev
	$(python) -m ruff check .

lab: $(VENV)/installed-notebooks
	$(python) -m jupyterlab chapters $(ARGS)

chapters: $(VENV)/installed-notebooks
	$(python) chapters/build.py $(ARGS)

site: $(VENV)/installed-docs
	$(python) site/make_site.py $(ARGS)

bench: $(VENV)/installed-bench
	$(python) benchmarks/cpu.py $(ARGS)

clean:
	rm -rf $(VENV) site/_build build dist *.egg-info .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an installation that was broken off is done again.
$(VENV)/installed: pyproject.toml $(absent)
	$(python) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml $(absent)
	$(python) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-notebooks: pyproject.toml $(absent)
	$(python) -m pip install --quiet --disable-pip-version-check --editable '.[notebooks]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml $(absent)
	$(python) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/installed

# On Linux pip takes PyTorch's build for CUDA, some gigabytes; one that is installed already, such as the CPU build, stays.
$(VENV)/installed-bench: pyproject.toml $(absent)
	$(python) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/installed

# A name on the path is no Python until it has run: version managers leave launchers there for versions they do not have.
# An environment that lacks nothing but pip (uv makes such) is given pip and kept.
environment:
	@if [ -z "$(PYTHON)" ] && { $(python) -c '$(usable)' && $(python) -m ensurepip && $(python) -c 'import pip'; } >/dev/null 2>&1; \
	then exit 0; fi; \
	found=; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	    $$candidate -c '$(usable)' 2>/dev/null || continue; \
	    found=$$candidate; \
	    $$candidate -c 'import ensurepip, venv' 2>/dev/null || continue; \
	    echo "making $(VENV) with $$candidate, installing into it (a minute)"; \
	    exec $$candidate -m venv --clear $(VENV); \
	done; \
	if [ -n "$$found" ]; then \
	    echo "$$found has no venv module: install it (Debian, Ubuntu: apt install python3-venv)," >&2; \
	else \
	    echo "no Python of version 3.11 or later$(if $(PYTHON), under the name '$(PYTHON)'): install one," >&2; \
	fi; \
	echo "or name another: make PYTHON=/path/to/python3" >&2; exit 1
