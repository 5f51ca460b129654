#!/bin/sh
# Builds the C library and installs it: shared and static library, header, pkg-config, CMake, manual pages.
#
# PREFIX says where programs will find it (target/c), DESTDIR goes before that where a package is made. A script, since cargo-c
# would compile half of cargo first, names libraries after their crates, and makes the header anew, which is committed here.
set -eu
cd "$(dirname "$0")/.."

case ${PREFIX:=target/c} in
/*) ;;
*) PREFIX=$PWD/$PREFIX ;;
esac
root=${DESTDIR:-}$PREFIX
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=libciphermill.so.0

# What a static library leaves to be linked, as the compiler says.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo rustc --release --locked -p ciphermill-c --lib -- --print native-static-libs 2>"$log" || { cat "$log" >&2; exit 1; }
libs=$(sed -n 's/.*native-static-libs: //p' "$log" | tail -n 1)
# Fresh builds say nothing.
[ -n "$libs" ] || libs='-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'
built=${CARGO_TARGET_DIR:-target}/release

install -d "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/ciphermill" "$root/share/man/man3"
install -m 644 doors/c/include/ciphermill.h "$root/include/ciphermill.h"
install -m 755 "$built/libciphermill_c.so" "$root/lib/libciphermill.so.$version"
ln -sf "libciphermill.so.$version" "$root/lib/$soname"
ln -sf "$soname" "$root/lib/libciphermill.so"
install -m 644 "$built/libciphermill_c.a" "$root/lib/libciphermill.a"
for file in ciphermill.pc ciphermill-config.cmake ciphermill-config-version.cmake; do
    case $file in *.pc) to=$root/lib/pkgconfig/$file ;; *) to=$root/lib/cmake/ciphermill/$file ;; esac
    sed -e "s|@PREFIX@|$PREFIX|g" -e "s|@VERSION@|$version|g" -e "s|@SONAME@|$soname|g" -e "s|@LIBS@|$libs|g" \
        "doors/c/install/$file.in" >"$to"
done
cargo run -q --locked -p xtask -- man "$root/share/man/man3"
echo "installed below $root"
