#!/usr/bin/env bash
# Builds what programs load, below PREFIX (target/openssl, target/pkcs11): `openssl`, the provider, and a configuration that loads it beside
# `default`; or `pkcs11`, the PKCS#11 module, under the name that programs are told.
# PROFILE=dev takes the one that `make test` has built, which a second build for itself would take minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

door=${1:-}
case $door in
openssl) name=ciphermill.so also=() ;;
# With the program that runs the modules of attached tokens.
pkcs11) name=libciphermill-pkcs11.so also=(-p ciphermill-token) ;;
*) echo "usage: $0 openssl|pkcs11" >&2 && exit 2 ;;
esac
case ${PREFIX:=target/$door} in
/*) ;;
*) PREFIX=$PWD/$PREFIX ;;
esac
case ${PROFILE:=release} in
release) built=release && cargo build --release --locked -p "ciphermill-$door" ${also[@]+"${also[@]}"} ;;
# Tests have it where their dependencies are; beside their folder it is only when it was built for itself.
dev) built=debug/deps && cargo test --workspace --locked --no-run ;;
*) echo "PROFILE is release or dev, not $PROFILE" >&2 && exit 1 ;;
esac
install -d "$PREFIX"
# Beside and then into its place: programs may have the one before loaded.
install -m 755 "${CARGO_TARGET_DIR:-target}/$built/libciphermill_$door.so" "$PREFIX/$name.new"
mv "$PREFIX/$name.new" "$PREFIX/$name"
if [ "$door" = pkcs11 ]; then
    host=ciphermill-token-host
    install -m 755 "${CARGO_TARGET_DIR:-target}/${built%/deps}/$host" "$PREFIX/$host.new"
    mv "$PREFIX/$host.new" "$PREFIX/$host"
    echo "the module is $PREFIX/$name; \`ciphermill pkcs11 install\` has p11-kit load it"
    exit
fi
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
module = $PREFIX/$name
END
echo "the provider is $PREFIX/$name; programs load it with OPENSSL_CONF=$PREFIX/openssl.cnf"
OPENSSL_CONF=$PREFIX/openssl.cnf openssl list -providers
