#!/usr/bin/env bash
# Unmodified programs of Debian with the provider and without, on loopback: each does its work, and what comes of it is compared.
# With the argument `all` OpenSSL's own tests besides, and measurements, which want two quiet cores. `ONLY=nginx` runs a part;
# `PROFILE=dev` takes what `make test` has built.
# Exit 77 says that all that ran was right, and that programs are missing here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=(openssl clients nginx apache haproxy keystore postgres openssh)
[ "${1:-}" != all ] || programs+=(evp-tests openssl-newer measure-haproxy measure-nginx measure-openssh)
if [ "${PROFILE:-release}" = release ]; then
    cargo build --release --locked -p ciphermill-openssl --example handshakes
    cargo build --release --locked -p ciphermill-cli
fi
missing=
for program in ${ONLY:-"${programs[@]}"}; do
    status=0
    "xtask/doors/$program.sh" || status=$?
    case $status in
    0) ;;
    77) missing="$missing $program" ;;
    *) exit "$status" ;;
    esac
done
[ -z "$missing" ] || { echo "doors: not run:$missing" >&2; exit 77; }
