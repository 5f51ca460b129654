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

# The machine's package sources, asked for sources; lists of our own, so that the machine's stay as they are.
download() {
    mkdir -p "$work/lists/partial"
    {
        [ ! -e /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list
    } >"$work/sources.list"
    mkdir -p "$work/sources"
    for each in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$each" ] || ! grep -qiE 'debian-archive-keyring|debian\.org' "$each" || sed 's/^Types:.*/Types: deb-src/' "$each" >"$work/sources/${each##*/}"
    done
    apt=(-o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/sources" -o "Dir::State::Lists=$work/lists"
        -o "APT::Sandbox::User=$(id -un)" -q)
    apt-get "${apt[@]}" update >"$scratch/apt.log" 2>&1 || return 1
    # The newest that can be had: a mirror may list a version before it has it.
    for each in $(apt-cache "${apt[@]}" showsrc openssl 2>/dev/null | sed -n 's/^Version: //p' | sort -Vr); do
        (cd "$work" && apt-get "${apt[@]}" source --download-only "openssl=$each") >>"$scratch/apt.log" 2>&1 || continue
        rm -rf "$source"
        # apt-get has compared the checksums that the signed lists have.
        dpkg-source --no-check -x "$work/openssl_${each#*:}.dsc" "$source" >>"$scratch/apt.log" 2>&1 && return
    done
    return 1
}

build() {
    # Debian's options as far as they say what is in the library.
    (cd "$source" && ./Configure linux-"$(uname -m)" shared no-idea no-mdc2 no-rc5 no-zlib no-ssl3 no-ssl3-method enable-unit-test \
        enable-rfc3779 enable-cms no-capieng &&
        make build_generated && make -j"$(nproc)" test/evp_test test/sslapitest providers/legacy.so \
        engines/dasync.so) >"$scratch/build.log" 2>&1
    touch "$source/built"
}

if [ ! -e "$source/built" ]; then
    download || lacks "OpenSSL's source package: $(tail -n 1 "$scratch/apt.log" | cut -c 1-200)"
    build
fi

# shellcheck source=xtask/doors/own-tests.sh
. xtask/doors/own-tests.sh
each_way own_tests
