#!/usr/bin/env bash
# The provider with a newer OpenSSL than Debian's: the tests of its crate, OpenSSL's own program as server, client and timer, and
# OpenSSL's evp_test and sslapitest, each compared with `default` alone. OpenSSL is built once in target/scratch, which takes some minutes.
program=openssl-newer
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
{ command -v make && command -v perl && command -v curl; } >/dev/null || lacks 'make, perl and curl (apt-get install make perl curl)'
version=3.6.3
checksum=243a86649cf6f23eeb6a2ff2456e09e5d77dd9018a54d3d96b0c6bdd6ba6c7f1
work=$PWD/target/scratch/openssl-$version
source=$work/source

# The release as its authors have published it, which Debian has too, as long as it has that version.
download() {
    local each
    mkdir -p "$work"
    for each in "https://github.com/openssl/openssl/releases/download/openssl-$version/openssl-$version.tar.gz" \
        "https://deb.debian.org/debian/pool/main/o/openssl/openssl_$version.orig.tar.gz"; do
        curl -sSfL --max-time 300 -o "$work/release.tar.gz" "$each" 2>>"$scratch/curl.log" || continue
        echo "$checksum  $work/release.tar.gz" | sha256sum --check --status && return
        echo "$each has another checksum" >>"$scratch/curl.log"
    done
    return 1
}

build() {
    rm -rf "$source"
    mkdir -p "$source"
    tar -xzf "$work/release.tar.gz" -C "$source" --strip-components=1
    # Debian's options as far as they say what is in the library. sslapitest has a libcrypto of its own within it, beside the one that
    # providers use: an engine that is loaded would meet both, and crash at the end.
    (cd "$source" && ./Configure linux-"$(uname -m)" shared no-docs no-idea no-mdc2 no-rc5 no-zlib no-dynamic-engine enable-unit-test \
        enable-rfc3779 &&
        nice -n 5 make build_generated && nice -n 5 make -j"$(nproc)" libcrypto.so libssl.so apps/openssl providers/legacy.so \
        test/evp_test test/sslapitest) >"$scratch/build.log" 2>&1
    touch "$source/built"
}

if [ ! -e "$source/built" ]; then
    download || lacks "the release $version of OpenSSL: $(tail -n 1 "$scratch/curl.log" | cut -c 1-200)"
    build
fi
# Without its variables: cargo and what it runs are the machine's.
cargo test --locked -p ciphermill-openssl --no-run
prepare
# Programs that name no other find this one.
mkdir "$scratch/bin"
ln -s "$source/apps/openssl" "$scratch/bin/openssl"
export PATH="$scratch/bin:$PATH" LD_LIBRARY_PATH=$source OPENSSL_MODULES=$source/providers
expect "OpenSSL $version is the one that runs" grep -q "^OpenSSL $version .*Library: OpenSSL $version " <(openssl version)

crate() {
    cargo test --locked -p ciphermill-openssl >"$scratch/crate.log" 2>&1
    echo "$program: $(grep -c '^test .* ok$' "$scratch/crate.log") tests of the crate with OpenSSL $version ok"
}

# One algorithm of a kind each, with jobs and without.
speed() {
    local each
    "${with[@]}" openssl list -providers >"$scratch/list.log"
    [ "$way" = default ] || grep -q 'name: Ciphermill' "$scratch/list.log"
    for each in rsa2048 ecdsap256 ecdhx25519 ed25519 'evp aes-128-gcm'; do
        # shellcheck disable=SC2086 # an option and its value
        limited "${with[@]}" openssl speed -seconds 1 -async_jobs 16 ${each/evp/-evp} >"$scratch/speed.log" 2>&1
        expect "no errors of speed with $each" [ "$(grep -ci 'error\|failure' "$scratch/speed.log")" = 0 ]
    done
    expect_operations 1000
    ok 'list, speed'
}

# Opaque keys reach ciphers of both kinds, and long messages come out alike.
opaque_keys() {
    local each key=00112233445566778899aabbccddeeff
    head -c 300000 /dev/zero >"$scratch/plain"
    for each in aes-128-ctr aes-128-cbc; do
        limited "${with[@]}" openssl enc "-$each" -in "$scratch/plain" -out "$scratch/$each-$way" -skeymgmt AES \
            -skeyopt "hexraw-bytes:$key" -iv "$key"
        cmp "$scratch/$each-default" "$scratch/$each-$way"
    done
    ok 'opaque keys'
}

crate
each_way speed
each_way opaque_keys
xtask/doors/openssl.sh
OPENSSL_CONF=/dev/null
# shellcheck source=xtask/doors/own-tests.sh
. xtask/doors/own-tests.sh
each_way own_tests
