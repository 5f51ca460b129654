#!/usr/bin/env bash
# Runs tests under a sanitizer of the nightly compiler: address, memory or thread.
# Exit 77 says that this machine lacks something, and what.
#
# Address does without an instrumented standard library. Thread and memory do not: what the library writes or orders, they
# would not see. So they build it from its sources (`rust-src`), which are commonly missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind=${1:?address, memory or thread}

lacks() { echo "not run: $1" >&2; exit 77; }
nightly=$(rustup run nightly rustc --print sysroot 2>/dev/null) || lacks 'a nightly toolchain (rustup toolchain install nightly)'
host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
short=${kind:0:1}san
[ "$kind" != address ] || short=asan
[ -e "$nightly/lib/rustlib/$host/lib/librustc-nightly_rt.$short.a" ] || lacks "the nightly toolchain has no runtime for $kind"

std=()
skipped=()
case $kind in
address)
    # Vector kernels, AWS-LC, locked memory: what holds unsafe code and needs no device.
    tests=(-p ciphermill-erased -p ciphermill-memory -p ciphermill-lanes -p ciphermill-library -p ciphermill-keys)
    # The sanitizer makes mlock do nothing and takes SIGSEGV for itself, which these tests are about.
    for test in a_refusal_to_lock_is_reported guard_pages_kill the_kernel_confirms_the_protections; do
        skipped+=(--skip "$test")
    done
    # AWS-LC keeps state of its threads to the end of the process.
    export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
    ;;
memory)
    [ -d "$nightly/lib/rustlib/src/rust/library" ] || lacks 'the sources of the standard library (rustup component add rust-src --toolchain nightly)'
    std=(-Zbuild-std)
    # No foreign code: memory sanitizer sees nothing of what it writes.
    tests=(-p ciphermill-contract -p ciphermill-lanes --lib)
    ;;
thread)
    [ -d "$nightly/lib/rustlib/src/rust/library" ] || lacks 'the sources of the standard library (rustup component add rust-src --toolchain nightly)'
    # An Arc of a library that is not instrumented looks like a race.
    std=(-Zbuild-std)
    tests=(-p ciphermill -p ciphermill-tuning --lib --tests)
    # These hold an engine to times that it does not keep when it is instrumented.
    for test in a_wrong_bit_is_found_by_a_witness a_wrong_bit_in_what_is_randomised_is_found_by_taking_it_back \
        a_batch_goes_where_it_is_predicted_to_be_fastest what_an_engine_takes_is_found; do
        skipped+=(--skip "$test")
    done
    ;;
*)
    echo "no such sanitizer: $kind" >&2
    exit 2
    ;;
esac
# Without --target the flags would apply to build scripts and procedural macros too.
RUSTFLAGS="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer ${RUSTFLAGS:-}" \
    cargo +nightly test --locked "${std[@]}" --target "$host" --target-dir "target/sanitizer-$kind" "${tests[@]}" --no-fail-fast "${@:2}" -- "${skipped[@]}"
