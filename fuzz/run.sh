#!/usr/bin/env bash
# Builds the fuzz targets with a nightly compiler and coverage instrumentation, and runs them one after the other.
# Usage: fuzz/run.sh SECONDS [TARGET …]; FEATURES=esp builds the targets of that feature alone, FEATURES=none those without any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
seconds=${1:?seconds for each target}
shift
rustup run nightly rustc --version >/dev/null 2>&1 || { echo 'not run: fuzzing wants a nightly toolchain (rustup toolchain install nightly)' >&2; exit 77; }

# The flags of cargo-fuzz without a sanitizer: nearly all of this is safe Rust, and xtask/sanitizers.sh looks at the rest.
flags='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters'
flags+=' -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing'
host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
# Without --locked: the lock file follows the crates that are fuzzed.
case ${FEATURES:-all} in
    all) features=() ;;
    none) features=(--no-default-features) ;;
    *) features=(--no-default-features --features "$FEATURES") ;;
esac
RUSTFLAGS=$flags cargo +nightly build --release --target "$host" "${features[@]}"

export CIPHERMILL_FUZZ_MASTER=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
# Large blocks, which keystores stretch secrets in, go back to the system. In the heap new inputs would settle in their place, and each
# block would be another one.
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4194304
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(batch names unwrap messages channel keystore keys manifest folder columns config csv parquet c pkcs11 esp_inbound)
CIPHERMILL_FUZZ_SEEDS=target/seeds "target/$host/release/seeds"
failed=0
total=0
for target in "${targets[@]}"; do
    program=target/$host/release/$target
    [ -x "$program" ] || { echo "$target: not built"; continue; }
    mkdir -p "target/corpus/$target" "target/findings" "target/seeds/$target" "seeds/$target"
    # The samples of Parquet are the longest seeds.
    case $target in parquet) len=24576 ;; *) len=4096 ;; esac
    log=target/$target.log
    # New inputs go to the first folder; the seeds, made and found, are only read.
    if "$program" "target/corpus/$target" "target/seeds/$target" "seeds/$target" -max_total_time="$seconds" -rss_limit_mb="${LIMIT_MB:-1024}" \
        -timeout=10 -max_len="${MAX_LEN:-$len}" -artifact_prefix="target/findings/$target-" -print_final_stats=1 >"$log" 2>&1; then
        verdict=ok
    else
        verdict="FOUND SOMETHING, see fuzz/$log and fuzz/target/findings"
        failed=1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    total=$((total + ${runs:-0}))
    printf '%-10s %12s inputs, at most %5s MiB: %s\n' "$target" "${runs:-?}" "${peak:-?}" "$verdict"
done
echo "fuzz: $total inputs"
exit $failed
