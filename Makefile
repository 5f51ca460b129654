# Two commands do everything on a fresh Debian 12 with a Rust toolchain: `make run` and `make test`.
# The setting-up that they share installs only what is missing; see xtask/setup.sh.

.DEFAULT_GOAL := help
.PHONY: c-library service openssl pkcs11 doors doors-setup doors-all gateway machete help wheel python spark setup setup-lab setup-tests run lab grid test lint unit doc book bench cases timing ctgrind emulated faults fuzz real-tables table-rates check-all gpu-kernels gpu-check deny clean
# Steps print in their order, whatever -j says: cargo uses all cores by itself.
.NOTPARALLEL:

# A rustup that was installed for this user only is found in a shell that has not read its profile.
export PATH := $(PATH):$(HOME)/.cargo/bin

# The lock file stands as it is committed, here as in every other step.
xtask = cargo run -q --locked -p xtask --
heading = @printf '\n== %s\n' "$(1)"

help: ## this list
	@echo 'make run    set up, build, and protect a table of 150,000 customers'
	@echo 'make test   set up, then every check and every test'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

setup: ## install the system packages that are missing (Debian, Ubuntu)
	@./xtask/setup.sh

setup-lab:
	@./xtask/setup.sh lab

setup-tests:
	@./xtask/setup.sh tests

run: setup ## build the release and run the main job on generated data
	$(call heading,build)
	cargo build --release --locked -p ciphermill-cli --no-default-features
	$(call heading,demo)
	./target/release/ciphermill demo

lab: setup-lab ## build the lab, which measures beside OpenSSL and other libraries
	cargo build --release --locked -p ciphermill-cli
	RUSTFLAGS='-C target-cpu=native' cargo build --release --locked -p ciphermill-siv --target-dir target/native

grid: lab ## every size and every batch of every suite beside the fastest peer: grid.html and grid.json
	target/release/ciphermill lab grid --core $$(($$(nproc) - 1)) --html grid.html --json grid.json

test: setup-tests lint unit python doc ## formatting, floors, tidiness, clippy, all tests, the documentation
	$(call heading,everything passed)

lint: ## formatting, floors, tidiness, clippy
	$(call heading,formatting)
	cargo fmt --all --check
	$(call heading,layers)
	$(xtask) layers
	$(call heading,tidy)
	$(xtask) tidy
	$(call heading,lock files)
	for folder in fuzz tools/sboxes; do cargo metadata --locked --format-version 1 --manifest-path $$folder/Cargo.toml >/dev/null || exit 1; done
	$(call heading,clippy)
	cargo clippy --workspace --all-targets --locked -- -D warnings

unit: ## unit, property, vector and end-to-end tests; the model checks of concurrent code
	$(call heading,tests)
	$(xtask) tests
	cargo test --workspace --doc --locked
	$(call heading,models)
	RUSTFLAGS="--cfg loom" cargo test --locked --target-dir target/loom -p ciphermill-memory --lib
	RUSTFLAGS="--cfg loom" cargo test --locked --target-dir target/loom -p ciphermill-principles --lib ring
	RUSTFLAGS="--cfg loom" cargo test --locked --target-dir target/loom -p ciphermill-shifts --lib

python: ## the tests of the Python package, with pyarrow, polars, pandas and DuckDB of PyPI in a virtual environment
	$(call heading,Python)
	@./xtask/python.sh test; status=$$?; [ $$status -eq 77 ] || exit $$status

spark: ## the Python package in Spark's workers, and whether keys leak there, with PySpark of PyPI
	@./xtask/setup.sh spark
	$(call heading,Spark)
	@./xtask/python.sh spark; status=$$?; [ $$status -eq 77 ] || exit $$status

wheel: setup ## the Python package for Python 3.9 and later, in target/wheels
	@./xtask/python.sh wheel

c-library: setup ## the C library with header, pkg-config, CMake and manual pages, below PREFIX (target/c); DESTDIR for packages
	@./xtask/c-library.sh

service: setup ## the service of this machine: the program, and its second name, ciphermilld
	cargo build --release --locked -p ciphermill-cli --no-default-features
	ln -sf ciphermill target/release/ciphermilld

openssl: setup-lab ## the provider for OpenSSL and a configuration that loads it, below PREFIX (target/openssl)
	@./xtask/door.sh openssl

pkcs11: setup ## the PKCS#11 module, below PREFIX (target/pkcs11)
	@./xtask/door.sh pkcs11

doors-setup: setup-lab
	@./xtask/setup.sh doors
	@PREFIX=target/openssl ./xtask/door.sh openssl
	@PREFIX=target/pkcs11 ./xtask/door.sh pkcs11

doors: doors-setup ## servers and clients of Debian with the provider or the PKCS#11 module and without; installs them
	@./xtask/doors.sh; status=$$?; [ $$status -eq 77 ] || exit $$status

doors-all: doors-setup ## the same, OpenSSL's own tests, and rates of HAProxy and scp; wants two quiet cores
	@./xtask/doors.sh all; status=$$?; [ $$status -eq 77 ] || exit $$status

gateway: setup ## the ESP gateway with scapy, strongSwan and hosts in network namespaces; installs what is missing, wants root; GATEWAY=all for traffic under IKE daemons
	@./xtask/setup.sh gateway
	@./xtask/gateway.sh $(GATEWAY); status=$$?; [ $$status -eq 77 ] || exit $$status

doc: ## the documentation of all crates, without warnings
	$(call heading,documentation)
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

mdbook_version = 0.5.4
mdbook = target/tools/mdbook-$(mdbook_version)/bin/mdbook

$(mdbook):
	$(call heading,mdBook $(mdbook_version) from crates.io)
	cargo install --locked --no-default-features --features search --root target/tools/mdbook-$(mdbook_version) mdbook@$(mdbook_version)

book: $(mdbook) ## the manual as a book in target/book; installs mdBook in target/tools
	$(call heading,manual)
	$(mdbook) build docs

bench: setup-lab ## benchmarks; they take a while, and want a quiet machine
	cargo bench --workspace --benches --locked

cases: lab ## the named measurements of the lanes engine, against their goals
	./target/release/ciphermill lab cases

timing: ## whether running times tell anything about keys and data; takes minutes, and wants a quiet machine
	cargo test --release --locked -p ciphermill-lanes --test timing -- --ignored --nocapture running_time

ctgrind: ## whether branches or addresses depend on keys or data, as Valgrind sees it
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='valgrind -q --error-exitcode=0 --error-limit=no' \
		cargo test --release --locked -p ciphermill-lanes --features ctgrind --test taint -- --ignored --nocapture --test-threads 1

emulated: ## the kernels that this processor cannot run, on emulated ones that can, and their instructions; takes an hour
	@./xtask/emulated-tests.sh

faults: ## every command that writes files, with each of its system calls failing in turn; `make test` tries a sample
	FAULTS=all $(xtask) tests faults

fuzz: ## fuzz everything that reads what comes from outside, TIME seconds a target (60); wants a nightly compiler
	./fuzz/run.sh $(or $(TIME),60)

real-tables: ## Parquet files of pandas, polars, DuckDB, Spark and others: protected, read by all of them, restored, compared
	@./xtask/setup.sh real-tables
	@./xtask/real-tables.sh

table-rates: ## protect and unprotect of 2.4 million customers, timed against pyarrow copying the same files
	@./xtask/setup.sh real-tables
	@./xtask/real-tables.sh rates

check-all: setup-tests ## everything above, sanitizers, all faults, fuzzing; says what this machine could not run
	@./xtask/setup.sh spark
	@./xtask/check-all.sh

nvrtc_version = 12.9.86
nvrtc = target/nvrtc-$(nvrtc_version)

$(nvrtc)/done:
	$(call heading,NVRTC $(nvrtc_version) from PyPI)
	rm -rf $(nvrtc) && mkdir -p $(nvrtc)
	python3 -m pip download -q --no-deps --dest $(nvrtc) nvidia-cuda-nvrtc-cu12==$(nvrtc_version)
	python3 -m zipfile -e $(nvrtc)/*.whl $(nvrtc)
	touch $@

gpu-kernels: $(nvrtc)/done ## compile every GPU kernel for CUDA, without a GPU, and hold it to its counts; downloads NVRTC
	LD_LIBRARY_PATH=$(CURDIR)/$(nvrtc)/nvidia/cuda_nvrtc/lib \
		cargo test --locked -p ciphermill-gpu --test nvrtc -- --nocapture

gpu-check: ## on a machine with a GPU: build, verify and measure the GPU engine, and write a record
	@./xtask/gpu-check.sh

machete_version = 0.9.2
machete = target/tools/machete-$(machete_version)/bin/cargo-machete

$(machete):
	$(call heading,cargo-machete $(machete_version) from crates.io)
	cargo install --locked --root target/tools/machete-$(machete_version) cargo-machete@$(machete_version)

machete: $(machete) ## dependencies that no source names; installs cargo-machete in target/tools
	$(machete) --with-metadata

deny_version = 0.20.2
deny = target/tools/cargo-deny-$(deny_version)/bin/cargo-deny

$(deny):
	$(call heading,cargo-deny $(deny_version) from crates.io)
	cargo install --locked --root target/tools/cargo-deny-$(deny_version) cargo-deny@$(deny_version)

deny: $(deny) ## licences, sources and known weaknesses of the dependencies; installs cargo-deny in target/tools
	$(deny) --locked --all-features check licenses bans sources
	$(deny) --locked --all-features check advisories

clean: ## remove everything that was built
	cargo clean
