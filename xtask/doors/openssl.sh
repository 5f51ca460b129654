#!/usr/bin/env bash
# OpenSSL's own server, client and timer: sessions resumed by tickets and by numbers, certificates of clients, s_time.
program=openssl
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare
make_authority
for kind in rsa ecdsa ed25519; do make_pair "$kind" "$kind"; done
make_pair client ecdsa

serve() { # KIND ARGUMENTS...
    local kind=$1
    shift
    free_port
    start server "${with[@]}" openssl s_server -accept "127.0.0.1:$port" -www -quiet -async \
        -key "$scratch/$kind.key" -cert "$scratch/$kind.crt" -CAfile "$scratch/authority.crt" "$@"
    await "$port"
}

client() { # ARGUMENTS...
    # Until the server closes the connection: by then a session of TLS 1.3 has come, which is later than the handshake.
    printf 'GET / HTTP/1.0\r\n\r\n' | limited "${with[@]}" openssl s_client -connect "127.0.0.1:$port" \
        -CAfile "$scratch/authority.crt" -verify_return_error -ign_eof "$@" >"$scratch/client.log" 2>&1
    grep -q 'Verify return code: 0' "$scratch/client.log"
}

resumes() { # CLIENT-ARGUMENTS...
    rm -f "$scratch/session"
    client "$@" -sess_out "$scratch/session"
    grep -q '^New, ' "$scratch/client.log"
    client "$@" -sess_in "$scratch/session"
    grep -q '^Reused, ' "$scratch/client.log"
}

check() {
    local kind own=(-cert "$scratch/client.crt" -key "$scratch/client.key")
    for kind in rsa ecdsa ed25519; do
        serve "$kind"
        resumes -tls1_2
        resumes -tls1_3
        stop TERM
        serve "$kind" -Verify 1
        resumes -tls1_2 "${own[@]}"
        resumes -tls1_3 "${own[@]}"
        stop TERM
    done
    serve rsa -no_ticket
    resumes -tls1_2
    resumes -tls1_3
    stop TERM
    # Of 14 full handshakes each has a signature and two agreements, six have the client's signature besides.
    expect_operations 48
    ok 'sessions of RSA, ECDSA and Ed25519 resumed in TLS 1.2 and 1.3, with certificates of clients, and without tickets'
    timer
}

timer() {
    local how
    serve rsa
    for how in -new -reuse; do
        limited "${with[@]}" openssl s_time -connect "127.0.0.1:$port" -CAfile "$scratch/authority.crt" -verify 2 -time 2 \
            -www / "$how" >"$scratch/client.log" 2>&1
        grep -Eq '^[1-9][0-9]* connections in [0-9]+ real seconds' "$scratch/client.log"
    done
    stop TERM
    ok 's_time with new sessions and resumed ones'
}
each_way check
