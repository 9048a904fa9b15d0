# What people, the README and CI call. `make` alone lists the targets.

# The demo: eight methods on one federation of 20 silos.
DEMO := separate fedavg fedavg-ft fedamp heurfedamp pfedatt fedacs apple \
        --data digits --setting practical --clients 20 --rounds 15 --epochs 5 \
        --set fedacs.optimizer=adam --set apple.lr_scale=m --out runs/demo --force

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The least share of the lines of src/amity that the fast tests must reach, in percent, and where it is written.
FLOOR := 94
COVERED := .coverage.json

# The first Python that is new enough and can make a virtual environment; `make PYTHON=... setup` overrides.
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python)
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-federation test check bench soak mutate sbom audit hashes docs site

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with the versions of constraints.txt

# The stamp comes last, so that an interrupted install is not taken for a complete one.
$(STAMP): pyproject.toml constraints.txt
	@set -e; chosen=; \
	for python in $(CANDIDATES); do \
	    if "$$python" -c "$(USABLE)" >/dev/null 2>&1; then chosen=$$python; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	    echo "Amity needs Python 3.11 or newer with the venv module; tried:"; \
	    for python in $(CANDIDATES); do \
	        echo "  $$python: $$("$$python" --version 2>/dev/null || echo 'not usable')"; \
	    done; \
	    echo "Install one (on Debian and Ubuntu also python3-venv), or name it: make PYTHON=/path/to/python3 setup"; \
	    exit 1; \
	fi; \
	echo "setup: $(VENV) with $$("$$chosen" --version)"; \
	"$$chosen" -m venv --clear $(VENV)
	@echo "setup: installing the versions of constraints.txt (torch is large: this takes a few minutes)"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "setup: done"

demo: setup  ## compare eight methods on 20 silos; the report is runs/demo/report.html
	$(BIN)/amity compare $(DEMO)

demo-federation: setup  ## a server and three silos as processes on this machine, over mutual TLS (about a minute)
	$(BIN)/amity federation try

# One thread per worker: two workers with a thread pool each would fight over the cores. Slipcover counts lines by
# rewriting them once, not by tracing every one: the suite takes a few percent longer, not half as long again.
# Tests that start a Ray cluster run by themselves, uncounted: Ray and slipcover in one process end it. So do those in a
# browser, whose event loop would be in the way of others. These mostly wait, so they run beside the others, are shown
# when all are done, and come from files that speak of them: to look through all tests takes twenty seconds each time.
# Whoever interrupts the target ends them with it: by force, since those with a cluster listen to SIGTERM themselves.
# Compiled files are kept, also where the environment asks for none: rewriting all tests takes each worker twelve seconds,
# and each of the processes that tests start would compile the package anew.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup  ## run the fast test suite and count the lines it reaches (long reference runs: .venv/bin/pytest -m slow)
	@said=$$(mktemp -d); export OMP_NUM_THREADS=1; failed=0; \
	$(BIN)/python -m pytest -m "ray and not slow" $$(grep -lrw ray tests --include='test_*.py') \
	    >$$said/ray 2>&1 & ray=$$!; \
	$(BIN)/python -m pytest -m "browser and not slow" $$(grep -lrwE 'browser|opened' tests --include='test_*.py') \
	    >$$said/browser 2>&1 & browser=$$!; \
	trap 'kill -KILL $$ray $$browser 2>/dev/null; rm -rf $$said' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/python -m slipcover --source src/amity --json --out $(COVERED) \
	    -m pytest -n 2 --dist loadgroup -m "not slow and not ray and not browser" || failed=1; \
	wait $$ray || failed=1; echo "tests with a Ray cluster:"; cat $$said/ray; \
	wait $$browser || failed=1; echo "tests in a browser:"; cat $$said/browser; \
	trap 'rm -rf $$said' EXIT; exit $$failed
	@$(BIN)/python -m slipcover --merge $(COVERED) --out $(COVERED) --skip-covered --fail-under $(FLOOR) || \
	    { echo "coverage: the tests must reach $(FLOOR) % of the lines of src/amity"; exit 1; }

check: setup  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup  ## speed and memory, as ratios against baselines in the same run
	$(BIN)/amity bench

soak: setup  ## try at random: runs, kills, damage, options, files, a federation (under an hour), with its tally
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak --json docs/tried.json; failed=$$?; \
	$(BIN)/python docs/tried.py; exit $$failed

# The tool is large and needed here only: it is installed when first asked for.
mutate: setup  ## break the method code in small ways and see whether the tests notice (long)
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[mutate]'
	$(BIN)/python benchmarks/mutate.py

# These two need tools of their own, which are installed when first asked for.
sbom: setup  ## write sbom.json: the bill of materials of Amity with every extra (CycloneDX)
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[supply]'
	@$(BIN)/python deploy/supply.py sbom.json

audit: setup  ## look the pinned versions up among known weaknesses (needs a network)
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[supply]'
	$(BIN)/pip-audit --strict --disable-pip --no-deps -r constraints.txt

hashes: setup  ## write requirements.lock: every file that this machine would install, by its hash
	@$(BIN)/python -m pip install -qq --dry-run --ignore-installed --report .pip-report.json -c constraints.txt '.[all]'
	@$(BIN)/python deploy/supply.py --hashes .pip-report.json requirements.lock && rm -f .pip-report.json

docs: setup  ## rewrite the pages that are made from the code, from what was measured and from recorded results
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/performance.py
	$(BIN)/python docs/reproduce.py
	$(BIN)/python docs/tried.py
	$(BIN)/python deploy/supply.py --licences docs/licences.md

site: setup  ## the documentation as a site, to be read without a network: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
