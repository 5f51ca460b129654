#!/usr/bin/env bash
# Unmodified programs of Debian with the provider and without, on loopback: each does its work, and what comes of it is compared.
# The programs of PKCS#11 do it with our module and with SoftHSM.
# With the argument `all` OpenSSL's own tests besides, and measurements, which want two quiet cores. `ONLY=nginx` runs a part,
# `WAYS=ciphermill MODULES=ciphermill` leaves out what is compared with; `PROFILE=dev` takes what `make test` has built.
# Exit 77 says that all that ran was right, and that programs are missing here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=(openssl clients nginx apache haproxy keystore postgres openssh)
programs+=(pkcs11-tool pkcs11-metaslot pkcs11-gnutls pkcs11-nss pkcs11-openssh pkcs11-engine pkcs11-java pkcs11-python)
[ "${1:-}" != all ] || programs+=(evp-tests openssl-newer measure-haproxy measure-nginx measure-openssh)
if [ "${PROFILE:-release}" = release ]; then
    cargo build --release --locked -p ciphermill-openssl --example handshakes
    cargo build --release --locked -p ciphermill-cli
fi
missing=
DOORS_SKIPPED=$(mktemp)
export DOORS_SKIPPED
trap 'rm -f "$DOORS_SKIPPED"' EXIT
# What no script tries, with the reason; what scripts leave out, they add.
cat >"$DOORS_SKIPPED" <<'END'
pkcs11-provider for OpenSSL 3: Debian 12 has no package of it; the engine of libp11 stands for it
step-ca: neither Debian 12 nor PyPI has it
kryoptic: a token and no program, and crates.io has its source alone; SoftHSM is the token to compare with
END
for program in ${ONLY:-"${programs[@]}"}; do
    status=0
    "xtask/doors/$program.sh" || status=$?
    case $status in
    0) ;;
    77) missing="$missing $program" ;;
    *) exit "$status" ;;
    esac
done
sed 's/^/doors: left out: /' "$DOORS_SKIPPED" >&2
[ -z "$missing" ] || { echo "doors: not run:$missing" >&2; exit 77; }
