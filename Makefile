# `make course` to learn, `make test` to prove; `make` alone lists the rest.
# Written for any POSIX shell and for GNU make 3.81 (macOS) or newer.

# The Python that makes the environment (3.11 or newer), and where the environment lies:
#   make course PYTHON=python3.12        make test VENV=/some/where/else        make test VENV="$CONDA_PREFIX"
PYTHON ?= python3
VENV ?= .venv
# The browser of the one test that opens JupyterLab.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
export CHROMIUM

bin := $(VENV)/bin
python := $(bin)/python
installed := $(VENV)/.installed
# Two test processes of one thread each: as fast as two cores go, and the same numbers as one process.
OMP_NUM_THREADS ?= 1
export OMP_NUM_THREADS
pytest := $(python) -m pytest
parallel := -n 2 --dist loadfile
nbval := MINIMIND_COURSE_UNATTENDED=1 $(pytest) -p course.nbval_tolerant --nbval --nbval-current-env --nbval-cell-timeout 300

# $(call part,NAME,COMMAND): run one part of the tests, say how long it took, and name it when it fails.
define part
@echo; echo "== $(1)"; start=$$(date +%s); \
if $(2); then echo "== $(1): passed in $$(($$(date +%s) - start)) s"; \
else echo "== $(1): FAILED after $$(($$(date +%s) - start)) s" >&2; exit 1; fi
endef

.PHONY: help
help:
	@echo "make course     make the environment if it is missing, then open the lessons in JupyterLab"
	@echo "make test       make the environment if it is missing, then run everything that must hold"
	@echo "make check      format, lint, types, imports, notebooks in step with their sources (seconds)"
	@echo "make notebooks  build the notebooks from course/lessons and run them"
	@echo "make labs       run every lab and compare it with its reference record"
	@echo "make mutate     put mistakes into copies of the package, one by one: a test must notice each (minutes)"
	@echo "make kernels    run the solved notebooks with other CPU kernels and thread counts (slow)"
	@echo "make clean      remove the environment and the caches; what you made stays"

.PHONY: environment
environment: $(installed)

$(installed): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The course needs Python 3.11 or newer, and '$(PYTHON)' is not. Say which one to use: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; \
	  exit 1; }
	@$(python) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(call part,environment in $(VENV),$(python) -m pip install --quiet -c constraints.txt -e '.[test]')
	@touch $@

.PHONY: course
course: $(installed)
	$(python) -m course.build lab

.PHONY: test
test: chromium $(installed)
	$(call part,checks,$(MAKE) --no-print-directory check)
	$(call part,unit and parity tests,$(pytest) $(parallel) -m 'not browser')
	$(call part,notebooks,$(nbval) $(parallel) notebooks)
	$(call part,JupyterLab in Chromium,$(pytest) -m browser)
	@echo; echo "== everything passed"

# Before anything slow runs.
.PHONY: chromium
chromium:
	@[ -n "$(CHROMIUM)" ] && [ -x "$(CHROMIUM)" ] || { \
	  echo "make test opens JupyterLab in Chromium, which is not here. On Debian or Ubuntu: sudo apt-get install chromium fonts-dejavu-core;" \
	       "elsewhere install Chromium or Chrome and say where it is: make test CHROMIUM=/path/to/chromium" >&2; \
	  exit 1; }

.PHONY: check
check: $(installed)
	$(python) -m ruff format --check --quiet .
	$(python) -m ruff check --quiet .
	$(python) -m mypy
	$(bin)/lint-imports --no-logo
	$(python) -m course.build check

.PHONY: notebooks
notebooks: $(installed)
	$(python) -m course.build build

.PHONY: labs
labs: $(installed)
	$(python) -m labs run --all --check

# A mistake that no test, no lab and no checker of an exercise notices is named.
.PHONY: mutate
mutate: $(installed)
	$(python) -m tests.mutate

# A number that is printed more precisely than machines agree on fails here.
.PHONY: kernels
kernels: $(installed)
	for capability in default avx2; do for threads in 1 2; do \
	  echo "== kernels: $$capability, threads: $$threads"; \
	  ATEN_CPU_CAPABILITY=$$capability MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=$$threads $(nbval) notebooks/solutions || exit 1; \
	done; done

# Only an environment that `make` could have made is removed (it has a pyvenv.cfg), never work/, out/ or checkpoints/.
.PHONY: clean
clean:
	[ ! -f $(VENV)/pyvenv.cfg ] || rm -rf $(VENV)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find minimind labs course tests -name __pycache__ -type d -prune -exec rm -rf {} +
