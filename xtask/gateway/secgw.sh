#!/usr/bin/env bash
# DPDK's ipsec-secgw in memory on one core, as a peer of the gateway: its packets come out of a ring and are dropped when they are
# done. One line a measurement, and one of JSON.
#
# Usage: secgw.sh [--core N] [--seconds S] [--only PATTERN]... [--pages huge|small]
#
# PATTERN is a measurement's name, as in `gcm-out-64` or `cbc-in-*`. With huge pages it is up to a quarter faster; root sets them
# aside for the time that it runs. It is built of Debian's source package, in target/scratch/secgw, beside the machine's libdpdk.
# What is measured, and how: secgw.py.
program=secgw
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../doors/common.sh"
here=$PWD/xtask/gateway
work=$PWD/target/scratch/secgw
version=$(dpkg-query -W -f '${Version}' libdpdk-dev 2>/dev/null) || lacks 'DPDK (apt-get install dpdk libdpdk-dev)'
{ command -v cc && command -v make && command -v pkg-config && command -v dpkg-source; } >/dev/null ||
    lacks 'a compiler and its tools (apt-get install gcc make pkg-config dpkg-dev)'
# Drivers are loaded when it starts, and are no part of the build.
compgen -G '/usr/lib/*/dpdk/pmds-*/librte_net_pcap.so' >/dev/null || lacks "DPDK's drivers (apt-get install dpdk)"
compgen -G '/usr/lib/*/dpdk/pmds-*/librte_crypto_ipsec_mb.so' >/dev/null || lacks "DPDK's drivers (apt-get install dpdk)"
# shellcheck source=xtask/python-environment.sh
. xtask/python-environment.sh
needs_python 3.10
[ "$(id -u)" = 0 ] || lacks 'the rights of root, which DPDK wants'

pages=huge
arguments=()
while [ $# != 0 ]; do
    case $1 in
    --pages) pages=${2:-} ;;
    --core | --seconds | --only) arguments+=("$1" "${2:-}") ;;
    *) echo "usage: $0 [--core N] [--seconds S] [--only PATTERN]... [--pages huge|small]" >&2 && exit 2 ;;
    esac
    shift $(($# > 1 ? 2 : 1))
done
case $pages in huge | small) ;; *) echo "$program: --pages huge or small" >&2 && exit 2 ;; esac

build() {
    local example=$work/source/examples/ipsec-secgw
    # It insists on checksums that the receiving port has verified, which is what no port in memory offers, and does not look at them.
    sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,/.offloads = 0,/' "$example/ipsec-secgw.c"
    grep -q '^[[:space:]]*\.offloads = 0,' "$example/ipsec-secgw.c"
    make -C "$example" shared >"$scratch/build.log" 2>&1
    cp "$example/build/ipsec-secgw-shared" "$work/ipsec-secgw"
    rm -rf "$work/source" "$work/lists"
    echo "$version" >"$work/version"
}

if [ "$(cat "$work/version" 2>/dev/null)" != "$version" ]; then
    rm -rf "$work"
    mkdir -p "$work"
    debian_source "$work" dpdk "$version" || lacks "DPDK's source package: $(tail -n 1 "$scratch/apt.log" | cut -c 1-200)"
    build
fi

scapy=$PWD/target/scratch/scapy/environment
environment "$here/scapy.txt" "$scapy"

# Huge pages that are set aside here are given back, however this ends.
reserved=/proc/sys/vm/nr_hugepages
free_pages() { sed -n 's/^HugePages_Free: *//p' /proc/meminfo; }
wanted=272
if [ "$pages" = huge ] && [ "$(free_pages)" -lt $wanted ]; then
    before=$(cat $reserved)
    trap 'finish; echo "$before" >"$reserved"' EXIT
    echo $((before + wanted)) >$reserved
    [ "$(free_pages)" -ge $wanted ] || lacks "$wanted huge pages of 2 MiB; without them: --pages small"
fi

# 2 says that it was asked for what there is not.
"$scapy/bin/python" "$here/secgw.py" --program "$work/ipsec-secgw" --version "$version" --scratch "$scratch" \
    --pages "$pages" "${arguments[@]}" || { status=$? && [ $status != 2 ] || exit 2 && failed "$LINENO" "secgw.py: $status"; }
