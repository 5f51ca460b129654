#!/bin/sh
# Builds the PKCS#11 module below PREFIX (target/pkcs11), under the name that programs are told: libciphermill-pkcs11.so.
# PROFILE=dev takes the one that `make test` has built, which a second build for itself would take minutes.
set -eu
cd "$(dirname "$0")/.."

case ${PREFIX:=target/pkcs11} in
/*) ;;
*) PREFIX=$PWD/$PREFIX ;;
esac
case ${PROFILE:=release} in
release) built=release && cargo build --release --locked -p ciphermill-pkcs11 ;;
# Tests have it where their dependencies are; beside their folder it is only when it was built for itself.
dev) built=debug/deps && cargo test --workspace --locked --no-run ;;
*) echo "PROFILE is release or dev, not $PROFILE" >&2 && exit 1 ;;
esac
install -d "$PREFIX"
# Beside and then into its place: programs may have the one before loaded.
install -m 755 "${CARGO_TARGET_DIR:-target}/$built/libciphermill_pkcs11.so" "$PREFIX/libciphermill-pkcs11.so.new"
mv "$PREFIX/libciphermill-pkcs11.so.new" "$PREFIX/libciphermill-pkcs11.so"
echo "the module is $PREFIX/libciphermill-pkcs11.so; \`ciphermill pkcs11 install\` has p11-kit load it"
