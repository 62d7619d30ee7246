# weir is built by CMake; these are the common commands. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
# Many tests wait more than they compute.
TEST_JOBS ?= $(shell expr $(JOBS) \* 2)

# Debian packages: to build, to test, to check with sanitizers and fuzzers, to measure.
# (tools/listed-programs lets tests see the programs of these packages and no others.)
BUILD_PACKAGES := g++ cmake ninja-build ccache libyaml-cpp-dev libcli11-dev libfmt-dev libcctz-dev libxxhash-dev \
                  nlohmann-json3-dev libsimdjson-dev libssl-dev tzdata libnghttp2-dev libprotobuf-dev protobuf-compiler
PACKAGE_PACKAGES := dpkg-dev binutils patchelf
TEST_PACKAGES := libgtest-dev libgmock-dev librapidcheck-dev libboost1.81-dev clang-14 clang-format-14 \
                 pkg-config python3 python3-redis python3-yaml python3-jsonschema redis-server redis-tools nginx-light curl openssl \
                 systemd strace libfaketime python3-pip man-db groff-base zsh fish tmux libgrpc++-dev protobuf-compiler-grpc python3-grpcio \
                 python3-protobuf python3-hpack nghttp2-client $(PACKAGE_PACKAGES)
BENCH_PACKAGES := libbenchmark-dev libabsl-dev valgrind python3 redis-server redis-tools nginx-light \
                  libnghttp2-dev libgrpc++-dev nghttp2-client
SANITIZE_PACKAGES := $(TEST_PACKAGES) $(BENCH_PACKAGES) libclang-rt-14-dev

install = @tools/install-packages $(BUILD_PACKAGES) $(1)
configure = @mkdir -p build && cmake --preset $(1) $(2) >build/configure-$(1).log || { cat build/configure-$(1).log; exit 1; }
compile = @cmake --build $(1) --parallel $(JOBS) --target $(2)
list_programs = @tools/listed-programs build/programs $(BUILD_PACKAGES) $(1)
run_tests = @PATH=$(CURDIR)/build/programs ctest --test-dir $(1) --output-on-failure --parallel $(TEST_JOBS)

.PHONY: help run tour build packages deb dist completion install test peers sanitize bench_smoke soak bench fuzz format pictures clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z_]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

define TRY
  weir serves examples/weir.yaml. In another terminal, try:

    curl -s --json '{"policy":"login","key":"alice"}' http://127.0.0.1:7380/v1/take
    redis-cli -p 7379 WEIR.TAKE login alice
    build/weir explain login alice

  It reads examples/weir.yaml again when you change it. Ctrl-C ends it.

endef
export TRY

run: build ## Build, then start the daemon with examples/weir.yaml
	@echo "$$TRY"
	@exec build/weir serve --config examples/weir.yaml

build: ## Build the command, build/weir
	$(call install)
	$(call configure,release,-DWEIR_TESTS=OFF -DWEIR_BENCH=OFF)
	$(call compile,build,weir)

tour: build ## Build, then take the tour: one burst of arrivals through every algorithm
	$(call compile,build,weir_tour)
	@build/tour

packages: ## Install the Debian packages that all of this needs, and nothing else
	$(call install,$(SANITIZE_PACKAGES))

deb: build ## Make Debian packages of the daemon and of its debug symbols, in build/
	$(call install,$(PACKAGE_PACKAGES))
	@tools/make-deb build/weir build

dist: build ## Make a tarball that runs from any folder, in build/
	$(call install,$(PACKAGE_PACKAGES))
	$(call compile,build,weir_archives)
	@tools/make-dist build build

completion: build ## Write the completion for shells anew, out of what --help says
	@tools/make-completion build/weir packaging/completion

PREFIX ?= /usr/local
install: build ## Install the library and the command (PREFIX=/usr/local)
	$(call compile,build,weir_archives)
	@cmake --install build --prefix $(PREFIX)

# (Compiled by g++; make sanitize compiles with clang++.)
test: ## Build and run all tests
	$(call install,$(TEST_PACKAGES))
	$(call list_programs,$(TEST_PACKAGES))
	@tools/fetch-promtool build/promtool
	@tools/fetch-envoy build/envoy
	@tools/check-layers
	@tools/check-names
	@tools/check-format
	$(call configure,release,-DWEIR_TESTS=ON -DWEIR_BENCH=OFF)
	$(call compile,build,all)
	$(call run_tests,build)

peers: ## Fetch what tests compare weir with, as far as it can be had: Envoy, envoyproxy/ratelimit, h2spec
	@tools/fetch-envoy build/envoy
	@tools/go-install build/ratelimit github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
	@tools/go-install build/h2spec github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

# The tests in which several threads run: only these are built and run under tsan.
UNITS_WITH_THREADS := net server envoy store store_redis redis limiter engine policy
STRESS := store_stress engine_stress
DAEMON_WITH_THREADS := resp http h2 grpc_wire grpc_vectors envoy_rules gateway_proxy gateway_limits gateway_keys \
                       operation notify metrics fleet fleet_faults fleet_leased fleet_split fleet_soak \
                       vectors vectors_on_memory policy_vectors_on_memory

sanitize: ## Run the tests under asan+ubsan and tsan, each bench once, and the fuzzers for some minutes
	$(call install,$(SANITIZE_PACKAGES))
	$(call list_programs,$(SANITIZE_PACKAGES))
	@tools/fetch-promtool build/promtool
	@$(MAKE) --no-print-directory peers
	$(call configure,asan)
	$(call compile,build/asan,all)
	$(call run_tests,build/asan)
	$(call configure,tsan)
	$(call compile,build/tsan,weir $(UNITS_WITH_THREADS:%=weir_%_tests) $(STRESS:%=weir_%))
	$(call run_tests,build/tsan) \
	  --tests-regex '^($(subst $() ,|,$(strip $(UNITS_WITH_THREADS) $(STRESS) $(DAEMON_WITH_THREADS))))$$'
	@$(MAKE) --no-print-directory bench_smoke
	@fuzz/run build/asan 480

# Runs every bench briefly, because benches that never run stop working.
bench_smoke:
	$(call configure,release,-DWEIR_TESTS=ON -DWEIR_BENCH=ON)
	$(call compile,build,weir_benches)
	@PATH=$(CURDIR)/build/programs bench/run build --smoke

FUZZ_SECONDS ?= 3600
fuzz: ## Fuzz all that reads input: files, requests, commands, replies (FUZZ_SECONDS=3600, all fuzzers together)
	$(call install,$(SANITIZE_PACKAGES))
	$(call configure,asan)
	$(call compile,build/asan,fuzzers)
	@fuzz/run build/asan $(FUZZ_SECONDS)

SOAK_SECONDS ?= 600
soak: ## Callers, operators, strangers and restarts at once, under asan, then under load (SOAK_SECONDS=600)
	$(call install,$(SANITIZE_PACKAGES))
	$(call configure,asan)
	$(call compile,build/asan,weir)
	@WEIR_SANITIZE=address /usr/bin/python3 tests/integration/soak_test.py build/asan/weir $(SOAK_SECONDS)
	@WEIR_SANITIZE=address /usr/bin/python3 tests/integration/gateway_soak_test.py build/asan/weir $(SOAK_SECONDS)
	$(call configure,release,-DWEIR_TESTS=OFF -DWEIR_BENCH=OFF)
	$(call compile,build,weir)
	@/usr/bin/python3 tests/integration/soak_test.py build/weir $(SOAK_SECONDS) --load
	@/usr/bin/python3 tests/integration/fleet_soak_test.py build/weir $(SOAK_SECONDS)
	@/usr/bin/python3 tests/integration/gateway_soak_test.py build/weir $(SOAK_SECONDS)

bench: ## Measure the core, the library, the daemon and limits on a Redis beside what they replace
	$(call install,$(BENCH_PACKAGES))
	$(call configure,bench)
	$(call compile,build/bench,all)
	@bench/run build/bench $(BENCH_FLAGS)

format: ## Format all sources
	$(call install,clang-format-14)
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format-14 -i

pictures: build ## Draw the pictures of the documentation anew
	$(call compile,build,weir_pictures)
	@build/pictures docs/pictures

clean: ## Remove what was built
	@rm -rf build
