#!/usr/bin/env bash
# Tests of the lanes engine on emulated processors: with AVX-512, and with AVX-IFMA alone. Called by `make emulated`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Some suites of each kind of kernel: under emulation the reference takes forty times as long.
export CONFORMANCE_ONLY=x25519,ed25519-cofactored,ecdsa-p256,rsa-1024-sign-pkcs1-sha256,dh-ffdhe2048,ecdh-sect163r2,ml-kem-768
CONFORMANCE_ONLY+=,des-cbc,aes-128-cbc,aes-256-gcm,aes-256-gcm-siv,chacha20-poly1305,sha256,ff1-aes-256

avx512=des=avx512,aes=vaes512,chacha20=avx512-ifma,hash=avx512,public=avx512-ifma,binary=avx512-vpclmul,lattice=avx512-vbmi2

xtask/emulated.sh build
for model in corei7_icelake_u arrow_lake; do
    printf '\n== %s\n' "$model"
    CONFORMANCE_KERNEL=public=avx-ifma
    [ $model = arrow_lake ] || CONFORMANCE_KERNEL=$avx512
    export CONFORMANCE_KERNEL
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/xtask/emulated.sh $model"
    # The others hold what they test against slow definitions, for minutes even on a processor that is there.
    cargo test --locked -p ciphermill-lanes --lib -- --test-threads 1 \
        public::curve25519 public::curve448 public::lattice public::binary_curves public::montgomery::tests::products public::powers
    cargo test --locked -p ciphermill-lanes --test conformance -- --test-threads 1 every_kernel_keeps
    cargo test --release --locked -p ciphermill-lanes --test timing -- --ignored --nocapture instructions
done
