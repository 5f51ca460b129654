#!/usr/bin/env bash
# Everything that can be checked on this machine, and a table of what was, what failed and what could not be run.
# Called by `make check-all`. TIME is the seconds that each fuzz target gets.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=target/check-all
mkdir -p "$logs"
rows=()
failed=0

# step NAME COMMAND…: exit code 77 means that the machine lacks something; the last line says what.
step() {
    local name=$1 log code begun=$SECONDS verdict
    shift
    log="$logs/${name// /-}.log"
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" >"$log" 2>&1
    code=$?
    case $code in
    0) verdict=passed ;;
    77) verdict="not run: $(tail -n 1 "$log" | sed 's/^not run: //')" ;;
    *) verdict="FAILED ($code), see $log" failed=1 ;;
    esac
    echo "$verdict"
    rows+=("$(printf '%-14s %6d s  %s' "$name" $((SECONDS - begun)) "$verdict")")
}

has() { command -v "$1" >/dev/null 2>&1; }
lacks() { echo "not run: $1"; return 77; }
ctgrind() { if has valgrind; then make ctgrind; else lacks 'valgrind (apt-get install valgrind)'; fi; }
# Licences and sources are checked without a net; the list of known weaknesses has to be fetched.
deny() {
    make deny && return
    # An advisory that was found fails; only a list that could not be fetched is nobody's fault.
    grep -q 'bans ok, licenses ok, sources ok' "$log" && grep -q 'failed to fetch advisory database' "$log" &&
        lacks 'the list of advisories could not be had; licences, bans and sources are in order'
}
gpu_kernels() { if has python3; then make gpu-kernels; else lacks 'python3, to download NVRTC'; fi; }
miri() {
    cargo +nightly miri --version || { lacks 'Miri (rustup component add miri --toolchain nightly)'; return; }
    cargo +nightly miri test --locked --target-dir target/miri -p ciphermill-erased || return
    # Where operations meet the arena: the rest has no pointers, and what is exhaustive takes hours here.
    MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 cargo +nightly miri test --locked --target-dir target/miri \
        -p ciphermill-contract --lib -- batch:: key:: op:: overlap:: owned:: parts:: status:: --skip exhaustive
}

# Through make, what is missing would look like what has passed.
doors() { make doors-setup && xtask/doors.sh; }
gateway() { xtask/setup.sh gateway && xtask/gateway.sh all; }

step test make test
step spark xtask/python.sh spark
step faults env FAULTS=all FAULT_SCHEDULES=10000 cargo xtask tests faults
# More vectors and keys that were tampered with, where `make test` takes a sample.
step conformance env CONFORMANCE_ALL=1 cargo xtask tests conformance
step acceptance env CONFORMANCE_ALL=1 cargo xtask tests acceptance
# Every suite through the service, and clients that are killed ten thousand times.
step service env CONFORMANCE_ONLY= FAULT_SCHEDULES=10000 CIPHERMILL_SERVICE_KILLS=10000 CIPHERMILL_SERVICE_SECONDS=180 CIPHERMILL_SERVICE_CASES=100000 CIPHERMILL_SERVICE_LIVES=400 \
    cargo test --locked -p ciphermill-service
step engine-faults cargo test --locked -p ciphermill-openssl --features faults --test engine_faults
step fuzz fuzz/run.sh "${TIME:-60}"
for sanitizer in address memory thread; do
    step "$sanitizer" xtask/sanitizers.sh "$sanitizer"
done
step ctgrind ctgrind
step miri miri
step emulated xtask/emulated-tests.sh
step doors doors
step gateway gateway
step timing make timing
step real-tables xtask/real-tables.sh
step machete make machete
step deny deny
step aarch64-check env RUSTFLAGS='-D warnings' xtask/aarch64.sh check
step aarch64 xtask/aarch64.sh test
step sboxes cargo test --locked --manifest-path tools/sboxes/Cargo.toml
step gpu-kernels gpu_kernels

printf '\n== all checks\n'
printf '%s\n' "${rows[@]}"
exit $failed
