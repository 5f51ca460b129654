#!/usr/bin/env bash
# The crates without C code, for a processor that is not x86-64: `check` type-checks them, `test` runs the
# tests of contract and lanes under qemu-user. Ends with 77 and a line on what is missing
# where the machine cannot do it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=aarch64-unknown-linux-gnu

lacks() {
    echo "not run: $1"
    exit 77
}

mode=${1:-check}
# A toolchain has a folder of libraries for each target that is installed.
[ -d "$(rustc --print target-libdir --target "$target")" ] ||
    lacks "the toolchain has no target $target (rustup target add $target)"

case $mode in
check)
    packages=(contract memory keys router shifts tables vectors reference lanes fault conformance report principles siv)
    cargo check --locked --target "$target" --target-dir target/aarch64 -p ciphermill "${packages[@]/#/-pciphermill-}"
    ;;
test)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    for program in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v "$program" >/dev/null || lacks "$program (apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
    done
    cargo test --locked --target "$target" --target-dir target/aarch64 -p ciphermill-contract -p ciphermill-lanes --lib --tests
    ;;
*)
    echo "usage: $0 check|test" >&2
    exit 2
    ;;
esac
