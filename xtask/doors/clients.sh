#!/usr/bin/env bash
# curl and wget as clients that have the provider, of a server that has it as well; with certificates of their own.
program=clients
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v curl >/dev/null || lacks 'curl (apt-get install curl)'
prepare
make_authority
make_pair server rsa
make_pair client-rsa rsa
make_pair client-ecdsa ecdsa
make_pair client-ed25519 ed25519
make_content 4

# OpenSSL's own server, which sends files of the folder that it is started in.
serve() {
    free_port
    start server env -C "$scratch/root" "${with[@]}" openssl s_server -accept "127.0.0.1:$port" -WWW -quiet \
        -key "$scratch/server.key" -cert "$scratch/server.crt" -CAfile "$scratch/authority.crt" -Verify 1
    await "$port"
}

check_curl() {
    local version kind
    for version in 1.2 1.3; do
        for kind in client-rsa client-ecdsa client-ed25519; do
            fetch_with "$version" "$kind"
        done
    done
    # Two signatures and two agreements for each.
    expect_operations 24
    ok 'curl and its server, TLS 1.2 and 1.3, certificates of clients of three kinds, 4 MB each compared'
}

fetch_with() { # VERSION KIND
    limited "${with[@]}" curl -sS --fail --cacert "$scratch/authority.crt" "--tlsv$1" --tls-max "$1" \
        --cert "$scratch/$2.crt" --key "$scratch/$2.key" "https://localhost:$port/content" -o "$scratch/fetched" 2>>"$scratch/client.log"
    expect "the content over TLS $1 with $2 as it was sent" [ "$(sha256sum <"$scratch/fetched")" = "$checksum" ]
}

check() {
    serve
    check_curl
    stop TERM
}
each_way check

# Debian's wget speaks GnuTLS, which knows nothing of the provider; only one that is linked to OpenSSL is worth a look.
if wget --version 2>/dev/null | grep -q '+ssl/openssl'; then
    check_wget() {
        serve
        limited "${with[@]}" wget -q --ca-certificate="$scratch/authority.crt" --certificate="$scratch/client-rsa.crt" \
            --private-key="$scratch/client-rsa.key" -O "$scratch/fetched" "https://localhost:$port/content"
        expect 'the content as it was sent' [ "$(sha256sum <"$scratch/fetched")" = "$checksum" ]
        ok 'wget, 4 MB compared'
        stop TERM
    }
    each_way check_wget
else
    echo 'clients: wget: not run, since it is not linked to OpenSSL' >&2
fi
