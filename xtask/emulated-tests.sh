#!/usr/bin/env bash
# Tests of the lanes engine on emulated processors: with AVX-512, and with AVX-IFMA alone. Called by `make emulated`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One suite for each kind of kernel at least: under emulation the reference takes forty times as long.
export CONFORMANCE_ONLY=x25519,x448,ed25519,ed25519-cofactored,ecdsa-p256,ecdh-p384,rsa-1024-sign-pkcs1-sha256,dh-ffdhe2048,ecdh-sect163r2
CONFORMANCE_ONLY+=,ml-kem-768,ml-dsa-65,des-cbc,aes-128-cbc,aes-128-ctr,aes-256-gcm,aes-256-gcm-siv,aes-256-xts,chacha20-poly1305,sha256,sha3-256
CONFORMANCE_ONLY+=,hmac-sha512,ff1-aes-256

xtask/emulated.sh build
for model in corei7_icelake_u arrow_lake; do
    printf '\n== %s\n' "$model"
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/xtask/emulated.sh $model"
    # The others hold what they test against slow definitions, for minutes even on a processor that is there.
    cargo test --locked -p ciphermill-lanes --lib -- --test-threads 1 public::curve25519 public::curve448 public::lattice public::binary_curves
    cargo test --locked -p ciphermill-lanes --test conformance -- --test-threads 1 every_kernel_keeps
    cargo test --release --locked -p ciphermill-lanes --test timing -- --ignored --nocapture instructions
done
