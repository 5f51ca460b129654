#!/usr/bin/env bash
# The gateway beside other programs: scapy opens and makes its packets, IKE daemons give it keys, hosts in network namespaces talk through it.
# `ONLY=scapy` runs a part; `PROFILE=dev` takes what `make test` has built.
# Exit 77 says that all that ran was right, and that something is missing here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=(scapy strongswan-keys libreswan-keys live)
if [ "${PROFILE:-release}" = release ]; then
    cargo build --release --locked -p ciphermill-cli --no-default-features
fi
missing=
for program in ${ONLY:-"${programs[@]}"}; do
    status=0
    "xtask/gateway/$program.sh" || status=$?
    case $status in
    0) ;;
    77) missing="$missing $program" ;;
    *) exit "$status" ;;
    esac
done
[ -z "$missing" ] || { echo "gateway: not run:$missing" >&2; exit 77; }
