# historyd: everything a developer or a packager runs. `make help` lists it.

# For pipefail: the tests' output is also kept.
SHELL = /bin/bash
.SHELLFLAGS = -o pipefail -c

# Where somebody's own `swift build` builds: it has other flags, and would build all of this again.
unexport SWIFTPM_BUILD_DIR
SWIFT   ?= swift
CC      ?= cc
PREFIX  ?= /usr/local
DESTDIR ?=
UNITDIR ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user
SYSCONFDIR ?= /etc
# Where `install` takes the programs from, and what takes the symbols out of them.
BINDIR  ?= .build/release
STRIP   ?= strip
# What `--version` says: the tag, or what was built since. Without git, what Sources/CVersion says.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null | sed 's/^v//' || true)
ifeq ($(VERSION),)
VERSION := $(shell commit=$$(git describe --always --dirty --exclude '*' 2>/dev/null) && echo "0.1.0+$$commit")
endif
# Exclusive access is proved by the compiler and the debug build's checks; a program for use does not check again.
# Nothing that is loaded asks the programs for their symbols: without these, and by lld, they are 3 MB smaller.
# Each function can be put where it is wanted: see link-order.
RELEASEFLAGS = -Xswiftc -enforce-exclusivity=unchecked -Xswiftc -use-ld=lld -Xlinker --icf=safe \
	-Xlinker --no-export-dynamic -Xswiftc -Xfrontend -Xswiftc -function-sections
order-of = $(if $(wildcard config/link/$(1).order),-Xlinker --no-warn-symbol-ordering \
	-Xlinker --symbol-ordering-file=$(CURDIR)/config/link/$(1).order)
# Only the programs that are built for use say it: else each commit would link everything again.
build-product = HISTORYD_VERSION='$(VERSION)' $(SWIFT) build -c release --static-swift-stdlib \
	$(RELEASEFLAGS) $(call order-of,$(1)) --product $(1)

# An index beside each build takes 6 % of its time, and editors make their own. lld takes half of gold's time.
debug-build = $(SWIFT) build --disable-index-store -Xswiftc -use-ld=lld

# What a build takes, and what the tests take besides.
PACKAGES  = libsqlite3-dev libsystemd-dev libnats-dev libssl-dev python3 sqlite3
TEST_PACKAGES = nats-server python3-venv systemd-container procps jq curl acl prometheus dpkg-dev
EXTENSION = Sources/CSQLiteHistory/history.c
# SwiftPM would link the extension against the Swift runtime, and it could not be loaded without one.
build-extension = $(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared \
	-o $(1)/libhistory.so $(EXTENSION)
# The benchmarks are a package of their own, and what they measure is not built with them. $(1): how; $(2): the build's folder.
build-benchmarks = $(1) --package-path Tests/Benchmarks --scratch-path .build/benchmarks && \
	ln -f .build/benchmarks/$(notdir $(2))/historyd-bench $(2)
# What is compared to is written in C: it needs the least that can be needed.
compile = { [ $(1) -nt Tests/Benchmarks/Programs/$(firstword $(2)) ] || \
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -o $(1) Tests/Benchmarks/Programs/$(2); }
bench-programs = $(call compile,$(1)/bench-consumer,consumer.c -lsqlite3) && \
	$(call compile,$(1)/bench-plugin,plugin.c) && \
	$(call compile,$(1)/bench-coredata,coredata.c -lsqlite3) && \
	$(call compile,$(1)/bench-stream,stream.c -lnats -lsqlite3) && \
	$(call compile,$(1)/bench-pidfd.so,pidfd.c -fPIC -shared) && \
	cp Tests/Benchmarks/Programs/consumer.sh $(1)/bench-consumer.sh
# Completions for shells, from the programs themselves.
make-completions = mkdir -p $(1)/completions && for program in historyd historyctl historyd-nats; do \
	for shell in bash zsh fish; do \
		$(1)/$$program --generate-completion-script $$shell | sed '1{/^\#!/d;}' >$(1)/completions/$$program.$$shell || \
		exit; done; done
# Where the system's Python looks for packages under PREFIX, so that hooks in Python find historyd; nowhere, for one that it
# does not know.
PYTHON ?= /usr/bin/python3
PYTHONDIR ?= $(shell $(PYTHON) -I -c 'import site, sys; print(next((each for each in sys.path + site.getsitepackages() \
	if each.startswith(sys.argv[1] + "/lib") and each.endswith("-packages")), ""))' $(PREFIX) 2>/dev/null)
# The documentation: what its pages are in, and what is documented in it.
CATALOG = Sources/PersistentHistory/PersistentHistory.docc
DOCUMENTED = HistoryBase PersistentHistory HistoryFeed
tests-in = TMPDIR=$(TESTFOLDER) $(1)/historydPackageTests.xctest --testing-library swift-testing
# Where tests keep their stores: in memory, where there is plenty and programs may be run from it. What a disk does is
# simulated, and tests that need a real one mount it.
TESTFOLDER = $(if $(TMPDIR),$(TMPDIR),$(shell set -- $$(df --output=avail /dev/shm 2>/dev/null) 0 0; \
	if [ "$$2" -gt 8000000 ] && ! findmnt -no OPTIONS /dev/shm | grep -q noexec; then echo /dev/shm; else echo /tmp; fi))
# $(1): where the tests were built; $(2): whether those under a booted systemd run beside the others.
run-tests = $(if $(TESTFLAGS),$(call tests-in,$(1)) $(TESTFLAGS),@TMPDIR=$(TESTFOLDER) Tests/run $(1) $(2))

.DEFAULT_GOAL := help
.PHONY: help toolchain dependencies test-dependencies build programs debug test test-docs docs test-openapi test-packages test-machines test-differential test-faults model mutants \
	torture torture-nats count-recording dedup-property fuzz fuzz-coredata simulate simulate-coverage run run-nats bench install deb uninstall \
	tsan asan lint format security clean link-order

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-zA-Z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  NAME of a part:    $(BENCHPARTS)"

toolchain:
	@version=$$($(SWIFT) --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p'); \
	if [ -z "$$version" ]; then \
		echo "Swift is missing. Install 6.2 or later as https://www.swift.org/install/linux/ says, and put it" >&2; \
		echo "on the PATH, or name it: make SWIFT=/opt/swift/usr/bin/swift" >&2; exit 69; fi; \
	if [ "$$(printf '6.2\n%s\n' "$$version" | sort -V | head -1)" != 6.2 ]; then \
		echo "Swift $$version is too old: 6.2 or later is needed (https://www.swift.org/install/linux/)." >&2; \
		exit 69; fi

# The versions of the packages that this one is built with.
Package.resolved: config/versions | dependencies
	@config/pin $(CURDIR)

Tests/Benchmarks/Package.resolved: Package.resolved
	@cp $< $@

raise-versions: toolchain ## Take the newest versions of the packages that Package.swift allows.
	$(SWIFT) package update
	config/pin --raise $(CURDIR)

dependencies: toolchain ## Install the Debian packages that a build needs and that are missing.
	@config/packaging/install-dependencies $(PACKAGES)

test-dependencies: dependencies
	@config/packaging/install-dependencies $(TEST_PACKAGES)

build: dependencies Package.resolved ## Build for use: historyd, historyd-nats, historyctl and libhistory.so in .build/release.
	$(call build-product,historyd)
	$(call build-product,historyd-nats)
	$(call build-product,historyctl)
	$(call build-extension,.build/release)
	@python3 config/man/make-man .build/release '$(VERSION)' .build/release/man >/dev/null
	$(call make-completions,.build/release)

# What `make test` builds, too. The optimizer takes twice as long, and is for `make build`.
programs: dependencies Package.resolved
	@$(debug-build) --target Programs
	@$(call build-extension,.build/debug)

debug: test-dependencies Package.resolved Tests/Benchmarks/Package.resolved ## Build for development, tests included, in .build/debug.
	$(debug-build) --build-tests
	$(call build-extension,.build/debug)
	@python3 config/man/make-man .build/debug '$(VERSION)' .build/debug/man >/dev/null
	$(call make-completions,.build/debug)
	$(call build-benchmarks,$(debug-build) --build-tests,.build/debug)
	$(call bench-programs,.build/debug)

test: debug ## Run every test. TESTFLAGS="--filter NAME" runs some, here and below.
	$(call run-tests,.build/debug,--beside)

# The first seed, another one each time, and how many cases.
SEED  ?= $(shell date +%s)
CASES ?= 20000

test-differential: debug ## Compare histories with the tables, for CASES= random cases from SEED= on; SQLITE=current uses a current SQLite.
	$(if $(filter current,$(SQLITE)),/usr/bin/python3 Tests/Tools/CurrentSQLite/make-library.py .build/current-sqlite)
	HISTORYD_DIFFERENTIAL_SEED=$(SEED) HISTORYD_DIFFERENTIAL_CASES=$(CASES) \
		$(if $(filter current,$(SQLITE)),LD_LIBRARY_PATH=.build/current-sqlite) \
		$(call tests-in,.build/debug) --filter DifferentialTests

test-faults: debug ## Let every call of every operation to the disk fail, from SEED= on.
	HISTORYD_FAULTS=all HISTORYD_FAULTS_SEED=$(SEED) $(call tests-in,.build/debug) --filter FaultTests

test-openapi: debug ## Make requests that are derived from config/openapi.json to a live daemon, CASES= for each operation.
	@[ -x .build/openapi/bin/schemathesis ] || { python3 -m venv .build/openapi && \
		.build/openapi/bin/pip install --quiet 'schemathesis>=4,<5'; }
	.build/openapi/bin/python Tests/Tools/OpenAPI/derive.py .build/debug/historyd .build/debug/historyctl \
		$(if $(filter 20000,$(CASES)),20,$(CASES))

test-packages: debug ## Install, upgrade and purge the Debian packages in a booted system. As root.
	HISTORYD_PACKAGES=1 $(call tests-in,.build/debug) --filter 'SystemdTests.*PackageTests'

test-machines: debug ## Promote a mirror on two booted machines, as planned and after the loss of the source. As root.
	HISTORYD_MACHINES=1 $(call tests-in,.build/debug) --filter 'SystemdTests.*PromotionTests'

# The samples that the tests leave out build a Swift package from outside, which takes minutes. Who uses the library
# builds it for use without the flags of the programs.
test-docs: debug ## Run every sample of the README and the pages: also those that build a Swift package; and as an installation leaves a machine.
	$(SWIFT) build -c release --target HistoryFeed
	@python=.build/client-packages/bin/python; [ -x $$python ] || python=/usr/bin/python3; \
	$$python Tests/Tools/Documentation/pages.py --slow --programs .build/debug README.md $(CATALOG)/*.md
	@[ "$$(id -u)" = 0 ] || { echo "As installed: left out, it takes root." >&2; exit; }; \
	for prefix in /usr /usr/local; do \
		Tests/Tools/Documentation/installed-pages $$prefix .build/debug README.md $(CATALOG)/*.md || exit; done

# By symbol graphs and the toolchain's own DocC: a plugin would be a dependency of everyone who uses the library.
docs: toolchain ## Build the documentation as a web site in .build/docs/site; warnings are errors.
	$(debug-build) --target HistoryFeed
	Tests/Tools/Documentation/build-docs $(SWIFT) $(CATALOG) .build/docs $(DOCUMENTED)

# The copy is built from scratch the first time.
mutants: debug ## Break the code in some thirty places, one at a time, and say which test noticed. NAMES="..." tries some.
	/usr/bin/python3 Tests/Tools/Mutants/mutants.py --swift $(SWIFT) $(NAMES)

# spin is a small package that nothing else here needs.
model: ## Check the model of cursors, feeds, cleaning, restores and power failures (Tests/Tools/Model).
	@command -v spin >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -qq -y spin
	Tests/Tools/Model/check

# Within how many seconds a store beside must be served, and how long each parser is fuzzed.
LIMIT ?= 1
PARSERSECONDS ?= 60
fuzz: debug ## Attack a daemon with CASES= mutated files and messages from SEED= on, then its parsers. As root.
	/usr/bin/python3 Tests/Tools/Fuzz/fuzz.py .build/debug/historyd .build/debug/historyctl \
		--cases $(CASES) --seed $(SEED) --limit $(LIMIT)
	Tests/Tools/Fuzz/parsers .build/debug $(PARSERSECONDS) $(SEED)

SEEDS ?= 1000
FROM  ?= 1
KIND  ?= faults
simulate: toolchain ## Simulate daemons from SEEDS= seeds, FROM= on, of a KIND= (faults, isolation, power, files, restores, machine, folders, upkeep, applications, mirrors); WITHOUT= leaves out steps.
	$(debug-build) --product historyd-simulation
	.build/debug/historyd-simulation --seeds $(SEEDS) --from $(FROM) --kind $(KIND) --jobs $$(nproc) \
		$(if $(WITHOUT),--without $(WITHOUT)) $(SIMULATEFLAGS)

# Counters lie in a file that all processes of a run have mapped: a life that is killed counts, too.
COVERAGE = .build-coverage
simulate-coverage: toolchain ## Run SEEDS= seeds of each kind, and print how much of the code the simulation alone has reached.
	$(debug-build) --product historyd-simulation --scratch-path $(COVERAGE) -Xswiftc -profile-generate \
		-Xswiftc -profile-coverage-mapping -Xswiftc -Xllvm -Xswiftc -runtime-counter-relocation
	rm -f $(COVERAGE)/*.profraw
	for kind in faults isolation power files restores machine folders upkeep applications mirrors; do LLVM_PROFILE_FILE=$(COVERAGE)/$$kind%c.profraw \
		$(COVERAGE)/debug/historyd-simulation --seeds $(SEEDS) --from $(FROM) --kind $$kind --jobs $$(nproc) --as-is; done
	@tools=$$(dirname $$(readlink -f $$(command -v $(SWIFT)))); \
	$$tools/llvm-profdata merge -o $(COVERAGE)/simulation.profdata $(COVERAGE)/*.profraw && \
	$$tools/llvm-cov export -summary-only -instr-profile $(COVERAGE)/simulation.profdata \
		$(COVERAGE)/debug/historyd-simulation | /usr/bin/python3 Tests/Tools/Coverage/coverage.py $(CURDIR)/Sources

fuzz-coredata: debug ## Read CASES= damaged Core Data stores, five times as many damaged models, and some of Apple's own.
	HISTORYD_MUTATIONS=$(CASES) $(call tests-in,.build/debug) --filter 'CoreDataHostileTests'

MINUTES ?= 10
torture: debug ## Stress the daemon for MINUTES (10), and print the result. As root, also with a full disk.
	/usr/bin/python3 Tests/Tools/Torture/torture.py .build/debug/historyd .build/debug/libhistory.so $$(( $(MINUTES) * 60 ))

count-recording: programs ## Count the instructions that a recorded statement takes for each row, and the same one untracked.
	@command -v valgrind >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -qq -y valgrind
	/usr/bin/python3 Tests/Tools/Recording/instructions.py .build/debug/historyctl

dedup-property: debug ## Let the sample plugin dedup.py merge rows of SEEDS= random stores.
	folder=$$(mktemp -d) && /usr/bin/python3 Tests/Tools/Samples/dedup_property.py $$folder \
		.build/debug/historyctl $(CURDIR)/.build/debug/libhistory.so config/plugins/dedup.py $$RANDOM $(SEEDS); \
		status=$$?; rm -rf $$folder; exit $$status

torture-nats: debug ## Kill publisher, follower, server and daemons, restore the store, publish foreign messages, for MINUTES (10).
	/usr/bin/python3 Tests/Tools/NATS/nats.py .build/debug foreign-all
	[ $$(id -u) != 0 ] || /usr/bin/python3 Tests/Tools/NATS/nats.py .build/debug limits
	/usr/bin/python3 Tests/Tools/NATS/nats.py .build/debug idle
	/usr/bin/python3 Tests/Tools/NATS/nats.py .build/debug overtaken
	/usr/bin/python3 Tests/Tools/NATS/adversity.py .build/debug narrow
	/usr/bin/python3 Tests/Tools/NATS/nats.py .build/debug faults $$(( $(MINUTES) * 60 ))

run: toolchain ## Run the daemon on a small sample store in .run, to try it.
	@config/sample/run --check $(CURDIR)/.run
	@echo "Building historyd, historyctl and libhistory.so in $(CURDIR)/.build/debug: some minutes the first time, seconds"
	@echo "after that. Then historyd runs on a small store in $(CURDIR)/.run until Ctrl-C."
	@$(MAKE) --no-print-directory programs
	@config/sample/run $(CURDIR)/.build/debug $(CURDIR)/.run

run-nats: toolchain ## Run a server, a publisher, a follower and two daemons on small stores in .run-nats.
	@$(MAKE) --no-print-directory build
	@config/sample/run-nats $(CURDIR)/.build/release $(CURDIR)/.run-nats

BENCHPARTS = latency backlog replica scale idle writer recording cleaning migration coreData instructions stream

.PHONY: bench-build bench-plots bench-compare bench-aims bench-NAME $(BENCHPARTS:%=bench-%)
bench: bench-build ## Measure everything. BENCHFLAGS="--rounds 3 --name before"; BENCHFLAGS=--help lists all flags.
	.build/release/historyd-bench $(BENCHFLAGS)

bench-NAME: ## Measure one part: NAME is one of those listed below.
	@echo "NAME is one of: $(BENCHPARTS)" >&2; exit 64

$(BENCHPARTS:%=bench-%): bench-%: bench-build
	.build/release/historyd-bench $* $(PARTFLAGS) $(BENCHFLAGS)
# A part by itself may take its time.
bench-scale: PARTFLAGS = --history 10000000
bench-idle: PARTFLAGS = --seconds 60
bench-cleaning: PARTFLAGS = --cleaned 5000000

bench-compare: ## Compare the last two runs, or those of the names A= and B=.
	.build/release/historyd-bench compare $(A) $(B)

bench-aims: ## Print which aims the last run, or that of the name A=, meets, in Markdown.
	.build/release/historyd-bench aims $(A)

bench-plots: ## Draw the last run, or that of the name A=, as SVG beside the page Performance.
	@run=$(if $(A),.build/bench/$(A).json,$$(ls -t .build/bench/*.json 2>/dev/null | head -1)); \
	[ -n "$$run" ] || { echo "There is no run in .build/bench: make bench makes one." >&2; exit 66; }; \
	python3 Tests/Benchmarks/Programs/plots.py "$$run" $(CATALOG)/Resources

bench-build: dependencies Package.resolved Tests/Benchmarks/Package.resolved
	$(call build-product,historyd)
	$(call build-product,historyd-nats)
	$(call build-benchmarks,$(call build-product,historyd-bench),.build/release)
	$(call build-product,historyctl)
	$(call bench-programs,.build/release)

link-order: bench-build ## Find out which functions a commit needs, for the linker to put together (needs valgrind).
	$(call build-extension,.build/release)
	for program in historyd historyd-nats; do config/link/make-order .build/release $$program > .build/link.order && \
		mv .build/link.order config/link/$$program.order || exit; done

installation = @DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) UNITDIR=$(UNITDIR) USERUNITDIR=$(USERUNITDIR) \
	BINDIR=$(BINDIR) STRIP=$(STRIP) PYTHONDIR=$(PYTHONDIR) config/packaging/installation

install: ## Install the build. DESTDIR=, PREFIX=, UNITDIR=, BINDIR= (where the built programs are).
	$(installation) install

deb: build ## Build Debian packages in .build/deb: historyd, historyd-nats, libhistory, and debug symbols.
	@config/packaging/install-dependencies dpkg-dev
	rm -rf .build/deb
	@# A stale list costs microseconds, and no package.
	for program in historyd historyd-nats; do config/link/make-order --check .build/release $$program || true; done
	python3 config/packaging/make-deb .build/release '$(VERSION)' .build/deb
	@! command -v lintian >/dev/null || lintian --allow-root --fail-on error .build/deb/*.deb

.PHONY: container
container: ## Build an image of the daemon with podman or docker: IMAGE=.
	$(firstword $(shell command -v podman docker)) build -t '$(or $(IMAGE),historyd)' -f config/packaging/Containerfile .

uninstall: ## Stop it, remove what `install` put there, but for configuration and state, and name stores with triggers.
	$(installation) uninstall

tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/Tests/Support/tsan.suppressions
tsan: test-dependencies Package.resolved ## Run the tests under the thread sanitizer.
	$(debug-build) --build-tests --sanitize=thread --scratch-path .build-tsan
	$(call build-extension,.build-tsan/debug)
	$(call run-tests,.build-tsan/debug)

# What is never freed is not looked for: the Swift runtime keeps things to a process's end.
asan: export ASAN_OPTIONS = detect_leaks=0
asan: test-dependencies Package.resolved ## Run the tests under the address sanitizer.
	$(debug-build) --build-tests --sanitize=address --scratch-path .build-asan
	$(call build-extension,.build-asan/debug)
	$(call run-tests,.build-asan/debug)

lint: ## Check the style of the sources.
	$(SWIFT) format lint --strict --recursive Sources Tests Package.swift

format: ## Format the sources in that style.
	$(SWIFT) format --in-place --recursive Sources Tests Package.swift

security: ## Check that the unit's sandbox has an exposure of at most 1.0.
	systemd-analyze security --offline=yes --threshold=10 --no-pager systemd/historyd.service

clean: ## Remove everything that was built.
	rm -rf .build .build-* .run
