#!/usr/bin/env bash
# The gateway beside other programs: scapy opens and makes its packets, IKE daemons give it keys, hosts in network namespaces talk through it.
# With the argument `all` traffic under strongSwan's keys and through strongSwan's own ESP besides, and Libreswan's daemon.
# `ONLY=scapy` runs a part; `PROFILE=dev` takes what `make test` has built.
# Exit 77 says that all that ran was right, and that something is missing here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=(scapy strongswan-keys 'live lab mtu path ipv6 hostile files')
[ "${1:-}" != all ] || programs+=(libreswan-keys 'live ike libipsec')
if [ "${PROFILE:-release}" = release ]; then
    cargo build --release --locked -p ciphermill-cli --no-default-features
fi
if [ "${1:-}" = all ] && [ -z "${ONLY:-}" ]; then
    cargo test --locked -p ciphermill-packets --test namespaces -- --ignored
fi
missing=
[ -z "${ONLY:-}" ] || programs=("$ONLY")
for program in "${programs[@]}"; do
    read -r -a words <<<"$program"
    status=0
    "xtask/gateway/${words[0]}.sh" "${words[@]:1}" || status=$?
    case $status in
    0) ;;
    77) missing="$missing ${words[0]}" ;;
    *) exit "$status" ;;
    esac
done
[ -z "$missing" ] || { echo "gateway: not run:$missing" >&2; exit 77; }
