#!/usr/bin/env bash
# Runs tests under a sanitizer of the nightly compiler: address, memory or thread.
# Exit 77 says that this machine lacks something, and what.
#
# Address does without an instrumented standard library. Thread and memory do not: what the library writes or orders, they
# would not see. So they build it from its sources: those of the toolchain (`rust-src`), or those in the folder that RUST_SRC
# names, which may be of a release that is as old as the toolchain within weeks. Debian's package rust-src has them in
# /usr/src/rustc-*/library; `dpkg-deb -x` unpacks it without installing it.
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
calls=
provider=()
instrumented_std() {
    local own=$nightly/lib/rustlib/src/rust/library
    if [ ! -d "$own" ]; then
        [ -f "${RUST_SRC:-}/std/Cargo.toml" ] ||
            lacks 'the sources of the standard library (rustup component add rust-src --toolchain nightly, or RUST_SRC)'
        # Cargo has no setting for this but the one of its own tests.
        export __CARGO_TESTS_ONLY_SRC_ROOT=$RUST_SRC
    fi
    std=(-Zbuild-std)
}
case $kind in
address)
    # Vector kernels, AWS-LC, locked memory, pointers of applications: what holds unsafe code and needs no device.
    tests=(-p ciphermill-erased -p ciphermill-memory -p ciphermill-lanes -p ciphermill-library -p ciphermill-keys -p ciphermill-pkcs11)
    calls=1000000
    # The sanitizer makes mlock do nothing and takes SIGSEGV for itself, which these tests are about.
    for test in a_refusal_to_lock_is_reported guard_pages_kill the_kernel_confirms_the_protections; do
        skipped+=(--skip "$test")
    done
    # AWS-LC keeps state of its threads to the end of the process.
    export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
    ;;
memory)
    instrumented_std
    # No foreign code: memory sanitizer sees nothing of what it writes.
    tests=(-p ciphermill-contract -p ciphermill-lanes --lib)
    ;;
thread)
    # An Arc of a library that is not instrumented looks like a race.
    instrumented_std
    tests=(-p ciphermill -p ciphermill-tuning --lib --tests)
    # These hold an engine to times that it does not keep when it is instrumented.
    for test in a_wrong_bit_is_found_by_a_witness a_wrong_bit_in_what_is_randomised_is_found_by_taking_it_back \
        a_batch_goes_where_it_is_predicted_to_be_fastest what_an_engine_takes_is_found \
        an_engine_that_comes_back_answers_its_known_answers_first allocations_do_not_grow_with_operations \
        a_full_step_leaves_at_once; do
        skipped+=(--skip "$test")
    done
    # Sessions and objects of many threads.
    tests+=(-p ciphermill-pkcs11)
    calls=100000
    # Operations of asynchronous jobs and of threads. OpenSSL itself is not instrumented: what it alone does is not looked at.
    provider=(-p ciphermill-openssl --features ciphermill-openssl/faults --test jobs --test handshakes --test engine_faults)
    ;;
*)
    echo "no such sanitizer: $kind" >&2
    exit 2
    ;;
esac
run_tests() {
    # Without --target the flags would apply to build scripts and procedural macros too.
    RUSTFLAGS="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer --cfg boxes ${RUSTFLAGS:-}" \
        cargo +nightly test --locked "${std[@]}" --target "$host" --target-dir "$target" --no-fail-fast "$@" -- "${skipped[@]}"
}
# How many calls the PKCS#11 module's random callers make.
[ -z "$calls" ] || export CIPHERMILL_PKCS11_CALLS=${CIPHERMILL_PKCS11_CALLS:-$calls}
target=target/sanitizer-$kind
status=0
run_tests "${tests[@]}" "${@:2}" || status=$?
if [ ${#provider[@]} != 0 ]; then
    # The provider's library takes the sanitizer's functions from the program. Where a program has PKCS#11's functions, tokens' modules
    # would take those instead of their own.
    RUSTFLAGS="-Clink-arg=-rdynamic ${RUSTFLAGS:-}"
    cc -shared -fPIC -O1 -Wall -Wextra -Werror -o "$target/fibres.so" xtask/fibres.c
    runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
    # What it reports of a forked child is not to be believed, nor does it count: there it knows of no order between jobs.
    export "$runner=env LD_PRELOAD=$PWD/$target/fibres.so"
    run_tests "${provider[@]}" "${@:2}" || status=$?
fi
exit $status
