#!/bin/sh
# Builds, verifies and measures the GPU engine in one run, on a machine with a GPU, and writes a record of the lab.
# Meant to take less than eight minutes on 16 cores, the build included; says how long each step took.
#
# GPU_TEST_DEVICE chooses the way to the device (`cuda`, `opencl`); without it `cuda`. The argument is the folder that the
# record goes to.
set -eu
cd "$(dirname "$0")/.."

device=${GPU_TEST_DEVICE:-cuda}
records=${1:-lab/records}
# PoCL is the processor itself: good for trying this script out, not for figures.
quick=
[ "$device" != pocl ] || quick=--quick
begun=$(date +%s)

step() {
    printf '\n== %s (%s s so far)\n' "$1" "$(($(date +%s) - begun))"
}

step "the machine"
nproc
if command -v nvidia-smi >/dev/null 2>&1; then
    nvidia-smi
else
    echo "gpu-check: there is no nvidia-smi here; going on, since the device may be another" >&2
fi

step "build"
cargo build --release --locked -p ciphermill-cli

step "known answers on the device"
# Fails when there is no device: a check that looks green without having run would be worth nothing.
./target/release/ciphermill selftest --engine "gpu:$device"

step "conformance, differential and mill tests on the device"
CI=true GPU_TEST_DEVICE=$device cargo test --release --locked -p ciphermill-gpu -- --nocapture

step "measure: the link, and what the device is held to beside it and beside this machine's other engines"
./target/release/ciphermill lab device $quick --engine "gpu:$device" --save "$records"

step "look: break-even and peaks beside this machine's other engines, in a hurry"
./target/release/ciphermill lab all --quick --method breakeven --method peaks \
    --engine "gpu:$device" --engine lanes --engine library \
    --suite 3des-cbc --suite aes-128-cbc --suite aes-128-gcm --suite chacha20-poly1305 --suite sha256

step "done"
