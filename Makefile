# All set-up is here: `make demo` and `make test` start from a bare machine (python3, gcc, make; root installs what is missing).

PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
VENV := .venv
BIN := $(VENV)/bin
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)
APT := apt-get -qq --no-install-recommends --no-remove -y

.PHONY: demo test test-full fuzz real bench lint scoreboard graph picture pyz tools intel host32 host32-if-possible clean

demo: $(VENV)/.ready host32-if-possible
	$(BIN)/python -m pytest -q -s -p no:cacheprovider tests/house/test_demo.py

test: $(VENV)/.ready tools intel host32-if-possible
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(PYTEST_ARGS)

# The product of all axes where `test` takes pairs: some two hours.
test-full: export OMPD_FULL := 1
test-full: $(VENV)/.ready tools intel host32-if-possible
	@$(BIN)/python -m tests.builds --fetch || echo "what could not be fetched is not tested"
	@$(BIN)/python -m tests.support.tools libomp || echo "tests of a libomp with debug information are skipped"
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(PYTEST_ARGS)

# Damaged cores and files for so many seconds, guided by the code that they reach; what is found lands in tests/finds.
TIME ?= 600
fuzz: $(VENV)/.ready tools intel
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	    $(BIN)/python -m pip -q --disable-pip-version-check install -e '.[fuzz]' --config-settings editable_mode=compat || \
	    echo "atheris cannot be installed here: cases are not guided by coverage"
	$(BIN)/python -m tests.fuzz --time $(TIME)

# Programs that nobody here wrote, of registries and of the folder PROGRAMS, asked at random moments; laws judge the
# answers.
real: $(VENV)/.ready tools intel
	$(BIN)/python -m tests.campaign --time $(TIME) $(if $(PROGRAMS),--programs $(PROGRAMS)) \
	    $(if $(RUNTIMES),--runtimes $(RUNTIMES)) $(if $(SEED),--seed $(SEED)) $(REAL_ARGS)

bench: $(VENV)/.ready tools intel
	$(BIN)/python -m bench $(BENCH_ARGS)

# docs/scoreboard.md: what `ompd conformance` finds in the libraries that there are here.
scoreboard: $(VENV)/.ready tools intel
	$(BIN)/python -m tests.conformance.scoreboard

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy

# One file for machines without pip: dist/ompd.pyz.
pyz: $(VENV)/.ready
	$(BIN)/python tools/pyz.py dist/ompd.pyz

# The graph of imports in docs/dev/architecture.md.
graph: $(VENV)/.ready
	$(BIN)/python -m tests.support.imports

# The picture on README's first screen, of the snapshot in docs/pictures.
picture: $(VENV)/.ready
	$(BIN)/python -m tests.support.picture

$(VENV)/.ready: pyproject.toml runtime_stub/plugin/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "$(PYTHON) is older than Python 3.10; name another: make PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { [ "$(ROOT)" = yes ] && apt-get -qq update && $(APT) install python3-venv; } || \
	    { echo "$(PYTHON) cannot make virtual environments: install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip -q --disable-pip-version-check install -e '.[test,lint]' -e runtime_stub/plugin --config-settings editable_mode=compat
	@$(BIN)/python -m compileall -q ompd runtime_stub/plugin
	@touch $@

# What tests use of the system (tests/tools.toml); without root the tests that need what is missing say so.
tools: $(VENV)/.ready
	@missing="$$($(BIN)/python -m tests.support.tools missing --packages --optional)"; \
	if [ -n "$$missing" ] && [ "$(ROOT)" = yes ]; then \
	    echo "installing $$missing"; apt-get -qq update; \
	    for package in $$missing; do $(APT) install $$package >/dev/null || echo "not installed: $$package"; done; \
	elif [ -n "$$missing" ]; then echo "not here, and only root installs it: $$missing"; fi
	@$(BIN)/python -m tests.support.tools debs >/dev/null
	@$(BIN)/python -m tests.support.tools wheels >/dev/null

# The runtime that the programs of the tests are linked with: Intel's, of which no byte is in this project.
intel: $(VENV)/.ready
	@$(BIN)/python -m tests.support.tools intel

# The program that hosts libraries of 32 bits, in the package (docs/hosted.md). HOST32_CFLAGS are what gcc needs for it
# beside -m32.
HOST32 := ompd/runtimes/hosted/host32

host32:
	@$(MAKE) -s -C runtime_stub host32 || \
	    { echo "gcc -m32 does not build programs here: install its C library of 32 bits (Debian: gcc-multilib)"; exit 1; }
	@cp runtime_stub/build/host32 $(HOST32).new && mv $(HOST32).new $(HOST32)

# Part of the set-up. Without a C library of 32 bits all but such libraries works.
host32-if-possible:
	@$(MAKE) -s host32 2>/dev/null || \
	    echo "libraries of 32 bits cannot be hosted: gcc -m32 does not link here (\`make host32\` says why)"

clean:
	rm -rf $(VENV) .cache dist $(HOST32)
