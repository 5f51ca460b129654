#!/usr/bin/env bash
# OpenSSH: a server and clients that load the provider, with keys of three kinds, key exchanges of three, and two ciphers. What
# talks to clients before they are known runs under seccomp and without the right to open files, make threads or processes.
program=openssh
# shellcheck source=xtask/doors/openssh-server.sh
. "$(dirname "${BASH_SOURCE[0]}")/openssh-server.sh"
make_content 100

logins() {
    local kind exchange
    for kind in rsa-sha2-512 ecdsa-sha2-nistp256 ssh-ed25519; do
        expect "what a command says over a host key of kind $kind" \
            [ "$(secure_shell -o HostKeyAlgorithms=$kind -i "$scratch/user-${kind%%-*}" "$login" echo answered)" = answered ]
    done
    for exchange in curve25519-sha256 ecdh-sha2-nistp256 diffie-hellman-group14-sha256; do
        secure_shell -o "KexAlgorithms=$exchange" -i "$scratch/user-ssh" "$login" true
    done
    ok 'logins with RSA, ECDSA and Ed25519 keys on both sides, X25519, P-256 and a group of Diffie-Hellman'
}

# Whether the provider is in the processes of a connection that is open, those of the server and the client.
is_loaded() {
    local each maps=0 clients
    secure_shell -i "$scratch/user-ssh" "$login" sleep 5 &
    clients=$!
    until_true 5 has_session
    for each in "$server" $(pgrep -P "$server") $(pgrep -f "^ssh .*-p $port "); do
        if grep -q ciphermill.so "/proc/$each/maps"; then maps=$((maps + 1)); fi
    done
    # What the shell in between has started.
    pkill -P "$clients"
    wait "$clients" || true
    if [ "$way" = default ]; then
        expect "no process with the provider, but $maps have it" [ "$maps" = 0 ]
    else
        expect "the provider in the server, its child and the client, but $maps of them have it" [ "$maps" -ge 3 ]
        ok 'loaded by the server, what it starts for a connection, and the client'
    fi
}

has_session() { pgrep -P "$server" >/dev/null && pgrep -f "sleep 5" >/dev/null; }

copies() {
    local cipher
    for cipher in aes128-ctr aes128-gcm@openssh.com; do
        secure_copy -c "$cipher" "$scratch/root/content" "$login:$scratch/there"
        expect "100 MB sent under $cipher as they were" [ "$(sha256sum <"$scratch/there")" = "$checksum" ]
        # With new keys in the middle.
        secure_copy -c "$cipher" -o RekeyLimit=30M "$login:$scratch/there" "$scratch/back"
        expect "100 MB fetched under $cipher as they were" [ "$(sha256sum <"$scratch/back")" = "$checksum" ]
    done
    ok '100 MB sent and fetched under aes128-ctr and aes128-gcm, with new keys in the middle, compared'
}

check() {
    launch
    logins
    is_loaded
    copies
    stop TERM
    ok 'stopped'
}
each_way check
