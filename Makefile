# Set-up and the daily commands. Everything goes into $(VENV), nothing outside this
# folder, and nothing is installed twice.
#
#   make train       a Relational Memory Core learns "nth farthest"
#   make test        all tests but the slow ones, on all cores (pytest-xdist)
#   make test-all    every test: chapters, website, browser, MPI, packaging, faults
#   make lint        ruff, the formatting, mypy, the lines of each room
#   make lab         opens your copies of the chapters in JupyterLab; ANEW="04": 04
#                    made anew, the old one kept beside it
#   make chapters    makes the notebooks from chapters/source/; ARGS="04 07": these
#   make claims      measures again what the chapters conclude; ARGS=09: chapter 9's
#   make site        builds the website into site/_build/html
#   make browser-live  the course in the Pyodide that users get, from the network
#   make bench       measures on this machine; ARGS=--quick: a first look
#   make faults      kills, full disks, forged files ...: 27 minutes of processor time
#   make clean       removes the environment, caches and builds; runs/ is kept
#
# ARGS is passed on to the command: make train ARGS="ladder --seed 1", make test
# ARGS="-k memory", make train ARGS=--help. PYTHON=python3.12 says which Python, from
# 3.11, the virtual environment is made with.

VENV := .venv
PYTHON ?=
ARGS ?=
ANEW ?=
python := $(VENV)/bin/python
usable := import sys; sys.exit(sys.version_info < (3, 11))

# An environment that cannot run (half made, moved, its Python removed) counts as
# absent, and so does one of another Python than asked for.
runs := $(python) -c 'import pip; $(usable)'
absent := $(shell $(runs) >/dev/null 2>&1 || echo environment)
ifneq ($(PYTHON),)
ifneq ($(shell { $(PYTHON) -VV; } 2>/dev/null),$(shell { $(python) -VV; } 2>/dev/null))
absent := environment
endif
endif

.PHONY: help train test test-all lint lab chapters claims site bench faults clean
.PHONY: browser-live environment
.NOTPARALLEL:

help:
	@sed -n 's/^#   //p' Makefile

train: $(VENV)/installed
	$(python) -m tinyrmc.train nth_farthest $(ARGS)

test: $(VENV)/installed-dev
	$(python) -m pytest -n auto -m "not slow" $(ARGS)

test-all: $(VENV)/installed-dev
	$(python) -m pytest -n auto --dist worksteal $(ARGS)

lint: $(VENV)/installed-dev
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(python) .ci/sizes.py

lab: $(VENV)/installed-course
	$(python) chapters/mine.py $(ANEW)
	$(python) -m jupyterlab '$(or $(TINYRMC_MINE),chapters/mine)' $(ARGS)

chapters: $(VENV)/installed-notebooks
	$(python) chapters/build.py $(ARGS)

claims: $(VENV)/installed-notebooks
	$(python) chapters/register.py $(ARGS)

site: $(VENV)/installed-docs
	$(python) site/make_site.py $(ARGS)

browser-live: $(VENV)/installed-dev $(VENV)/installed-docs
	.ci/browser-live $(python)

bench: $(VENV)/installed-bench
	$(python) benchmarks/cpu.py $(ARGS)

faults: $(VENV)/installed-dev
	$(python) tests/test_faults_campaign.py $(ARGS)

clean:
	rm -rf $(VENV) site/_build build dist *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an installation that was broken off is done again.
install := -m pip install --quiet --disable-pip-version-check --editable

$(VENV)/installed: pyproject.toml $(absent)
	$(python) $(install) .
	@touch $@

# On Linux pip takes PyTorch's build for CUDA, some gigabytes, for `bench`; one that is
# installed already, such as the CPU build, stays.
$(VENV)/installed-%: pyproject.toml $(absent)
	$(python) $(install) '.[$*]'
	@touch $@ $(VENV)/installed

# A name on the path is no Python until it has run: version managers leave launchers
# there for versions they do not have. An environment that lacks nothing but pip (uv
# makes such) is given pip and kept.
under_name := $(if $(PYTHON), under the name '$(PYTHON)')
pythons := python3 python3.14 python3.13 python3.12 python3.11 python
environment:
	@give_pip() { $(python) -c '$(usable)' && $(python) -m ensurepip && $(runs); }; \
	if [ -z "$(PYTHON)" ] && give_pip >/dev/null 2>&1; then exit 0; fi; \
	found=; \
	for candidate in $(or $(PYTHON),$(pythons)); do \
	    $$candidate -c '$(usable)' 2>/dev/null || continue; \
	    found=$$candidate; \
	    $$candidate -c 'import ensurepip, venv' 2>/dev/null || continue; \
	    echo "making $(VENV) with $$candidate, installing into it (a minute)"; \
	    exec $$candidate -m venv --clear $(VENV); \
	done; \
	if [ -n "$$found" ]; then \
	    echo "$$found has no venv module: install it" \
	        "(Debian, Ubuntu: apt install python3-venv),"; \
	else \
	    echo "no Python of version 3.11 or later$(under_name): install one,"; \
	fi >&2; \
	echo "or name another: make PYTHON=/path/to/python3" >&2; exit 1
