#!/usr/bin/env bash
# Runs a program on a processor that this machine does not have: Bochs emulates one with AVX-512 or AVX-IFMA, some two
# hundred million instructions a second, and Debian's kernel starts the program there as the only one.
#
#   emulated.sh MODEL PROGRAM [ARGUMENT…]
#   emulated.sh build
#
# `make emulated` gives it to cargo as what starts tests. Variables whose names begin with CONFORMANCE_ go along.
#
# MODEL is one of Bochs: `corei7_icelake_u` has AVX-512 with IFMA, VAES, GFNI and VPCLMULQDQ, `arrow_lake` AVX-IFMA and
# no AVX-512. What the program prints is printed; its exit code is this script's. Nothing is installed: Debian's packages
# are unpacked in target/emulated, and Bochs is built there from a later source of Debian's, because that of Debian 12 is
# too old for AVX-IFMA. Without root, and without a net once everything is there. A program may take EMULATED_SECONDS
# (two hours). Exit code 77 means that something cannot be had here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

source=bochs_3.0+dfsg.orig.tar.xz
source_sha256=78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b
# Debian 12's kernel for clouds: small, and whole without modules.
kernel=linux-image-cloud-amd64
packages=(bochsbios vgabios busybox-static isolinux syslinux-common)

home=$root/target/emulated
lacks() { echo "not run: $1"; exit 77; }

# replace FILE TEXT REPLACEMENT: in Bochs's source, where the text has to be.
replace() {
    grep -qF "$2" "$home/bochs/$1"
    sed -i "s/$(printf '%s' "$2" | sed 's/[][\\.*^$\/]/\\&/g')/$3/" "$home/bochs/$1"
}

build() {
    rm -rf "$home"
    mkdir -p "$home/packages" "$home/root"
    [ "$(uname -m)" = x86_64 ] || lacks "x86-64, whose programs are emulated"
    command -v apt-get >/dev/null || lacks "apt-get, for Debian's kernel and Bochs"
    for tool in curl g++ make xorriso cpio; do
        command -v "$tool" >/dev/null || lacks "$tool (apt-get install curl g++ make xorriso cpio)"
    done
    local image
    image=$(apt-cache depends "$kernel" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
    [ -n "$image" ] || lacks "Debian's package $kernel (apt-get update)"
    (cd "$home/packages" && apt-get download -q "${packages[@]}" "$image") || lacks "packages of Debian"
    for package in "$home"/packages/*.deb; do dpkg -x "$package" "$home/root"; done
    curl -sSfL -o "$home/$source" "https://deb.debian.org/debian/pool/main/b/bochs/$source" || lacks "Bochs's source"
    echo "$source_sha256  $home/$source" | sha256sum --check --quiet
    mkdir "$home/bochs"
    tar -C "$home/bochs" --strip-components 1 -xf "$home/$source"
    # Two mistakes of version 3.0. It refuses gathers and scatters whose indices are in one of the upper sixteen registers, since it
    # takes the bit that says so for a part of another field; and compressing a whole vector of bytes or words gives none.
    replace cpu/decoder/fetchdecode32.cc 'i->setSibIndex(i->sibIndex() | (vvv & 0x10));' \
        'i->setSibIndex(i->sibIndex() | (vvv \& 0x10)); vvv \&= 0xf;'
    replace cpu/avx/avx512.cc 'Bit64u writemask = (BX_CONST64(1) << k) - 1;' \
        'Bit64u writemask = k < 64 ? (BX_CONST64(1) << k) - 1 : ~BX_CONST64(0);'
    replace cpu/avx/avx512.cc 'Bit32u writemask = (1 << k) - 1;' 'Bit32u writemask = Bit32u((BX_CONST64(1) << k) - 1);'
    # Without its count of instructions a second, which it logs in a signal's handler, and hangs if the signal came while it was logging.
    (
        cd "$home/bochs"
        CFLAGS=-O3 CXXFLAGS=-O3 ./configure --enable-cpu-level=6 --enable-x86-64 --enable-avx --enable-evex \
            --enable-all-optimizations --disable-debugger --disable-show-ips --disable-docbook --with-nogui
        make -j "$(nproc)" bochs
    ) >"$home/build.log" 2>&1 || { tail -n 20 "$home/build.log"; exit 1; }
    cp "$root/xtask/emulated.sh" "$home/built-by"
}

[ "$*" = build ] || [ $# -ge 2 ] || { sed -n 's/^#   /usage: /p' "${BASH_SOURCE[0]}"; exit 2; }
# Built again when this script has changed.
cmp -s "$root/xtask/emulated.sh" "$home/built-by" || build
[ "$*" != build ] || exit 0
model=$1 program=$(realpath "$2")
shift 2

# Everything of one run lies in a folder of its own, so that two models can run side by side.
run=$(mktemp -d "$home/run.XXXXXX")
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$run"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$run/root/bin" "$run/root/proc" "$run/root/sys" "$run/root/dev" "$run/root/tmp" "$run/disk/isolinux"

# The program and what it links to, at the same paths.
cp "$home/root/bin/busybox" "$run/root/bin/"
strip -o "$run/root/program" "$program"
for library in $(ldd "$program" | grep -o '/[^ ]*'); do
    mkdir -p "$run/root$(dirname "$library")"
    cp -L "$library" "$run/root$library"
done
{
    echo '#!/bin/busybox sh'
    echo '/bin/busybox mount -t proc proc /proc'
    echo '/bin/busybox mount -t sysfs sys /sys'
    echo '/bin/busybox mount -t devtmpfs dev /dev'
    for name in "${!CONFORMANCE_@}"; do
        printf 'export %q\n' "$name=${!name}"
    done
    printf '/program'
    [ $# -eq 0 ] || printf ' %q' "$@"
    # Of a program that a signal killed, the kernel says where it was.
    printf '\ncode=$?\n[ $code -lt 128 ] || /bin/busybox dmesg | /bin/busybox tail -n 2\n'
    printf 'echo "exit code of the program: $code"\n/bin/busybox sleep 1\n/bin/busybox poweroff -f\n'
} >"$run/root/init"
chmod +x "$run/root/init"
(cd "$run/root" && find . | cpio -o -H newc --quiet | gzip -1 >../disk/initrd)
cp "$home"/root/boot/vmlinuz-* "$run/disk/vmlinuz"
cp "$home/root/usr/lib/ISOLINUX/isolinux.bin" "$home/root/usr/lib/syslinux/modules/bios/ldlinux.c32" "$run/disk/isolinux/"
# Without `fsrm` (580): the models have it without `erms`, for which this kernel's memmove is wrong.
cat >"$run/disk/isolinux/isolinux.cfg" <<'END'
DEFAULT run
PROMPT 0
LABEL run
 KERNEL /vmlinuz
 INITRD /initrd
 APPEND console=ttyS0 quiet loglevel=1 mitigations=off nokaslr lpj=100000 clearcpuid=580 tsc_early_khz=1000000 panic=1
END
xorriso -as mkisofs -quiet -o "$run/disk.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
    -boot-load-size 4 -boot-info-table "$run/disk" 2>"$run/xorriso.log" || { cat "$run/xorriso.log"; exit 1; }
cat >"$run/bochsrc" <<END
cpu: model=$model, count=1, ips=1000000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=2048, host=2048
romimage: file=$home/root/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=$home/root/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$run/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$run/serial
log: $run/log
display_library: nogui
clock: sync=none
END
: >"$run/serial"
tail -n +1 -f "$run/serial" --pid=$$ &
# In the background, so that a signal to this script ends it.
timeout "${EMULATED_SECONDS:-7200}" "$home/bochs/bochs" -q -f "$run/bochsrc" >"$run/out" 2>&1 </dev/null &
wait $! || true
sleep 1
code=$(sed -n 's/^exit code of the program: \([0-9]*\).*/\1/p' "$run/serial" | tail -1)
[ -n "$code" ] || { echo "the emulator stopped, or its time was over, before the program ended:"; tail -n 5 "$run/log"; exit 1; }
exit "$code"
