#!/usr/bin/env bash
# OpenSSL's own evp_test and sslapitest, of Debian's source package, with the provider and without: no errors, and no more skipped
# than without. They are built in target/scratch, with the library that belongs to them, which takes some minutes once.
program=evp-tests
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
{ command -v dpkg-source && command -v make && command -v perl; } >/dev/null ||
    lacks 'dpkg-source, make and perl (apt-get install dpkg-dev make perl)'
prepare
work=$PWD/target/scratch/openssl
source=$work/source

build() {
    # Debian's options as far as they say what is in the library.
    (cd "$source" && ./Configure linux-"$(uname -m)" shared no-idea no-mdc2 no-rc5 no-zlib no-ssl3 no-ssl3-method enable-unit-test \
        enable-rfc3779 enable-cms no-capieng &&
        make build_generated && make -j"$(nproc)" test/evp_test test/sslapitest providers/legacy.so \
        engines/dasync.so) >"$scratch/build.log" 2>&1
    touch "$source/built"
}

if [ ! -e "$source/built" ]; then
    debian_source "$work" openssl || lacks "OpenSSL's source package: $(tail -n 1 "$scratch/apt.log" | cut -c 1-200)"
    build
fi

# shellcheck source=xtask/doors/own-tests.sh
. xtask/doors/own-tests.sh
each_way own_tests
