# weir is built by CMake; these are the commands people type. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)

# Debian packages: what it takes to build, to test, to check with sanitizers and fuzzers, to measure.
BUILD_PACKAGES := g++ cmake ninja-build ccache libyaml-cpp-dev libcli11-dev libfmt-dev libcctz-dev libxxhash-dev \
                  nlohmann-json3-dev libboost1.81-dev libsimdjson-dev libssl-dev tzdata libnghttp2-dev libprotobuf-dev protobuf-compiler
TEST_PACKAGES := libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev libabsl-dev clang-14 clang-format-14 \
                 pkg-config python3 python3-redis python3-yaml python3-jsonschema redis-server redis-tools nginx-light curl openssl \
                 systemd strace libfaketime python3-pip man-db groff-base zsh fish tmux libgrpc++-dev protobuf-compiler-grpc python3-grpcio \
                 python3-protobuf python3-hpack nghttp2-client libnghttp2-dev $(PACKAGE_PACKAGES) $(NODE_PACKAGES)
NODE_PACKAGES := $(if $(shell command -v npm),,nodejs npm)
PACKAGE_PACKAGES := dpkg-dev binutils
SANITIZE_PACKAGES := clang-14 libclang-rt-14-dev
BENCH_PACKAGES := libbenchmark-dev libabsl-dev valgrind python3 redis-server redis-tools nginx-light \
                  libnghttp2-dev libgrpc++-dev nghttp2-client

install = @tools/install-packages $(BUILD_PACKAGES) $(1)
configure = @cmake --preset $(1) $(2) >build/configure-$(1).log || { cat build/configure-$(1).log; exit 1; }

.PHONY: help run tour build deb completion install test peers sanitize soak bench fuzz format pictures clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

tour: build ## Build, then take the tour: one burst of arrivals through every algorithm
	@build/tour

build: ## Build the command, build/weir
	$(call install)
	@mkdir -p build
	$(call configure,release,-DWEIR_TESTS=OFF -DWEIR_BENCH=OFF)
	@cmake --build build --parallel $(JOBS)

deb: build ## Make a Debian package of the daemon, in build/
	$(call install,$(PACKAGE_PACKAGES))
	@tools/make-deb build/weir build

completion: build ## Write the completion for shells anew, out of what --help says
	@tools/make-completion build/weir packaging/completion

PREFIX ?= /usr/local
install: build ## Install the library and the command (PREFIX=/usr/local)
	@cmake --install build --prefix $(PREFIX)

# (With g++; what clang has to say is said in `make sanitize`. Many tests wait more than they work.)
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
test: ## Build and run all tests
	$(call install,$(TEST_PACKAGES))
	@tools/fetch-promtool build/promtool
	@tools/fetch-envoy build/envoy
	@tools/check-layers
	@tools/check-format
	$(call configure,release,-DWEIR_TESTS=ON -DWEIR_BENCH=ON)
	@cmake --build build --parallel $(JOBS)
	@ctest --test-dir build --output-on-failure --parallel $(TEST_JOBS)

peers: ## Fetch what tests compare weir with, as far as it can be had: Envoy, envoyproxy/ratelimit, h2spec
	@tools/fetch-envoy build/envoy
	@tools/go-install build/ratelimit github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
	@tools/go-install build/h2spec github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

# Those in which threads meet: under tsan, only these are built and run.
UNITS_WITH_THREADS := base core wire net server envoy store store_lease store_redis redis limiter engine policy timeline
STRESS := store_stress engine_stress
DAEMON_WITH_THREADS := resp http h2 grpc_wire grpc_vectors envoy_rules gateway_proxy gateway_limits gateway_keys \
                       operation notify metrics fleet fleet_faults fleet_leased fleet_split fleet_soak \
                       vectors vectors_on_memory policy_vectors_on_memory

sanitize: ## Run the tests under asan+ubsan and tsan, and each fuzzer for a minute
	$(call install,$(TEST_PACKAGES) $(SANITIZE_PACKAGES))
	@tools/fetch-promtool build/promtool
	@$(MAKE) --no-print-directory peers
	$(call configure,asan)
	@cmake --build build/asan --parallel $(JOBS)
	@ctest --test-dir build/asan --output-on-failure --parallel $(JOBS)
	$(call configure,tsan)
	@cmake --build build/tsan --parallel $(JOBS) --target weir $(UNITS_WITH_THREADS:%=weir_%_tests) $(STRESS:%=weir_%)
	@ctest --test-dir build/tsan --output-on-failure --parallel $(JOBS) \
	  --tests-regex '^($(subst $() ,|,$(strip $(UNITS_WITH_THREADS) $(STRESS) $(DAEMON_WITH_THREADS))))$$'
	@$(MAKE) --no-print-directory fuzz SECONDS_EACH=60

SECONDS_EACH ?= 300
fuzz: ## Fuzz whatever reads: limits, timelines, policy files, requests, bodies, commands, answers, state files, a Redis (SECONDS_EACH=300)
	$(call install,$(SANITIZE_PACKAGES))
	@mkdir -p build
	$(call configure,fuzz)
	@cmake --build build/fuzz --parallel $(JOBS) --target fuzzers
	@fuzz/run build/fuzz $(SECONDS_EACH)

SOAK_SECONDS ?= 600
soak: ## Callers, operators, strangers and restarts at once, under asan, then under load (SOAK_SECONDS=600)
	$(call install,$(TEST_PACKAGES) $(SANITIZE_PACKAGES))
	@mkdir -p build
	$(call configure,asan)
	@cmake --build build/asan --parallel $(JOBS) --target weir
	@WEIR_SANITIZE=address tests/integration/soak_test.py build/asan/weir $(SOAK_SECONDS)
	@WEIR_SANITIZE=address tests/integration/gateway_soak_test.py build/asan/weir $(SOAK_SECONDS)
	$(call configure,release,-DWEIR_TESTS=ON -DWEIR_BENCH=ON)
	@cmake --build build --parallel $(JOBS) --target weir
	@tests/integration/soak_test.py build/weir $(SOAK_SECONDS) --load
	@tests/integration/fleet_soak_test.py build/weir $(SOAK_SECONDS)
	@tests/integration/gateway_soak_test.py build/weir $(SOAK_SECONDS)

bench: ## Measure the core, the library, the daemon and limits on a Redis beside what they replace
	$(call install,$(BENCH_PACKAGES))
	@mkdir -p build
	$(call configure,bench)
	@cmake --build build/bench --parallel $(JOBS)
	@bench/run build/bench $(BENCH_FLAGS)

format: ## Format all sources
	$(call install,clang-format-14)
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format-14 -i

pictures: build ## Draw the pictures of the documentation anew
	@build/pictures docs/pictures

clean: ## Remove what was built
	@rm -rf build
