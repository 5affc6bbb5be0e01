# Everything runs in .venv, which the first target that needs it makes.
#   PYTHON         interpreter to make it with: python3.11 or newer
#   RUNTIME_CACHE  folder for downloaded weights, outside the repository

# The first that runs: a version manager's shim may be there for a Python that is not.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
  command -v $$name && break; done)
RUNTIME_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/runtime
BIN := .venv/bin
KERNELS := $(shell find kernels_cpu cmake -type f 2>/dev/null)
SMOLLM2 := $(RUNTIME_CACHE)/SmolLM2-135M-Instruct.Q4_1.gguf
MINILM := $(RUNTIME_CACHE)/all-MiniLM-L6-v2
export RUNTIME_CACHE

.DEFAULT_GOAL := help
.PHONY: help demo kernels weights test test-cuda test-kernels test-arm sanitize sanitize-cuda \
  lint format docs wheels clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/kernels $(SMOLLM2) ## Set up, fetch a small model and generate text with it
	@$(BIN)/runtime generate $(SMOLLM2) --chat --max-tokens 48 --temperature 0 \
	  --prompt "What is gravity?" \
	  --prompt "Write one sentence about the sea."

kernels: .venv/kernels ## Build the kernels of the CPU platform and install them

weights: $(SMOLLM2) $(MINILM) ## Fetch the small models that the demo and the tests use

test: .venv/tested .venv/kernels ## Set up and pass the tests
	$(BIN)/pytest -n 2

# By the machine's own Python: torch for the GPU is there, and is not for .venv to fetch.
test-cuda: ## Pass the tests that need an NVIDIA GPU, with python3's own packages
	PYTHONPATH="$(CURDIR):$$PYTHONPATH" python3 -m pytest -q -n 0 tests/device/cuda
	PYTHONPATH="$(CURDIR):$$PYTHONPATH" python3 -m runtime conformance --platform cuda

# The kernels' own test program, which needs no torch: here, and for ARM64 under an emulator.
KERNEL_TEST = $(BIN)/cmake -S $(or $(3),kernels_cpu)/tests -B $(1) $(2) >/dev/null && \
  $(BIN)/cmake --build $(1) --parallel 2 && $(BIN)/ctest --test-dir $(1) --output-on-failure

test-kernels: .venv/tested ## Run the kernels' own tests (those of CUDA on the host, where nvcc is)
	$(call KERNEL_TEST,build/kernel-tests,)
	@if command -v nvcc >/dev/null; then \
	  $(call KERNEL_TEST,build/cuda-kernel-tests,,kernels_cuda); \
	else \
	  echo "make: no nvcc: the CUDA kernels' tests are left out" >&2; \
	fi

test-arm: .venv/tested ## Run them for ARM64 (needs g++-aarch64-linux-gnu and qemu-user-static)
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null || { \
	  echo "make: test-arm needs Debian's g++-aarch64-linux-gnu and qemu-user-static" >&2; exit 1; }
	$(call KERNEL_TEST,build/kernel-tests-arm,--toolchain $(CURDIR)/cmake/aarch64-linux.cmake)

# libstdc++ is loaded with the checker, which looks for its exceptions at the start.
sanitize: .venv/tested ## Run the CPU kernels' tests with checks of addresses and undefined behaviour
	$(BIN)/pip install --quiet --upgrade --no-deps --target build/sanitize ./kernels_cpu \
	  -Ccmake.define.RUNTIME_SANITIZE=ON
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/sanitize $(BIN)/pytest -n 2 tests/device/cpu

# Each allocation by itself, so that the checker sees where one ends.
sanitize-cuda: ## Run the CUDA kernels' tests under compute-sanitizer, with python3's own packages
	for tool in memcheck racecheck; do \
	  PYTHONPATH="$(CURDIR):$$PYTHONPATH" PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
	  compute-sanitizer --tool $$tool --error-exitcode 1 --kernel-name-exclude kns=at:: \
	  python3 -m pytest -q -n 0 -p no:cacheprovider -k "not cudnn" \
	  tests/device/cuda/test_kernels_ops.py tests/device/cuda/test_attention.py || exit 1; \
	done

C_SOURCES = $(shell git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

lint: .venv/developed ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)
	$(BIN)/mypy

format: .venv/developed ## Format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_SOURCES)

docs: .venv/documented ## Build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheels: .venv/tested ## Build all distributions into dist/ (those of CUDA where nvcc is)
	$(BIN)/python -m build
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist ./kernels_cpu
	@if command -v nvcc >/dev/null; then \
	  echo "building the CUDA kernels" && \
	  $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist ./kernels_cuda; \
	else \
	  echo "make: no nvcc: runtime-kernels-cuda is left out" >&2; \
	fi
	@ls dist

clean: ## Remove the environment and build products
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is no Python 3.11 or newer; set PYTHON" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu]"
	@touch $@

# Optional: without a compiler the platform computes with torch's own ops.
.venv/kernels: .venv/installed $(KERNELS)
	@if command -v $(firstword $(CXX)) >/dev/null; then \
	  echo "building the CPU kernels" && $(BIN)/pip install --quiet ./kernels_cpu && touch $@; \
	else \
	  echo "make: no C++ compiler ($(CXX)): going on without the CPU kernels, which is slower" >&2; \
	fi

.venv/tested: .venv/installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu,test]"
	@touch $@

.venv/developed: .venv/tested
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu,dev]"
	@touch $@

.venv/documented: .venv/installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[cpu,docs]"
	@touch $@

$(SMOLLM2): | .venv/bin/python
	$(BIN)/python scripts/fetch_smollm2.py $@

$(MINILM): | .venv/bin/python
	$(BIN)/python scripts/fetch_minilm.py $@
