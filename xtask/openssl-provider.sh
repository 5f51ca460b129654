#!/bin/sh
# Builds the provider for OpenSSL, and a configuration that loads it beside `default`, below PREFIX (target/openssl).
# PROFILE=dev takes the one that `make test` has built, which a second build for itself would take minutes.
set -eu
cd "$(dirname "$0")/.."

case ${PREFIX:=target/openssl} in
/*) ;;
*) PREFIX=$PWD/$PREFIX ;;
esac
case ${PROFILE:=release} in
release) built=release && cargo build --release --locked -p ciphermill-openssl ;;
# Tests have it where their dependencies are; beside their folder it is only when it was built for itself.
dev) built=debug/deps && cargo test --workspace --locked --no-run ;;
*) echo "PROFILE is release or dev, not $PROFILE" >&2 && exit 1 ;;
esac
install -d "$PREFIX"
# Beside and then into its place: programs may have the one before loaded.
install -m 755 "${CARGO_TARGET_DIR:-target}/$built/libciphermill_openssl.so" "$PREFIX/ciphermill.so.new"
mv "$PREFIX/ciphermill.so.new" "$PREFIX/ciphermill.so"
cat >"$PREFIX/openssl.cnf" <<END
openssl_conf = init

[init]
providers = providers
alg_section = algorithms
random = random

# OpenSSL's generator is as good with its own cipher.
[random]
properties = provider=default

# Of what both providers have, ours is taken.
[algorithms]
default_properties = ?provider=ciphermill

[providers]
default = provider_default
ciphermill = provider_ciphermill

[provider_default]
activate = 1

[provider_ciphermill]
activate = 1
module = $PREFIX/ciphermill.so
END
echo "the provider is $PREFIX/ciphermill.so; programs load it with OPENSSL_CONF=$PREFIX/openssl.cnf"
OPENSSL_CONF=$PREFIX/openssl.cnf openssl list -providers
