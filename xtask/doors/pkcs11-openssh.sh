#!/usr/bin/env bash
# OpenSSH: users whose keys are in the token, by PKCS11Provider and by an agent.
program=pkcs11-openssh
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
# shellcheck source=xtask/doors/openssh-server.sh
. xtask/doors/openssh-server.sh
command -v ssh-agent >/dev/null || lacks 'ssh-agent (apt-get install openssh-client)'

# In batches it asks for no PIN, and keys of tokens count as identities that nobody named.
options=("${options[@]/BatchMode=yes/BatchMode=no}")
options=("${options[@]/IdentitiesOnly=yes/IdentitiesOnly=no}")
unset SSH_AUTH_SOCK

# Programs ask for the PIN where there is no terminal, by this.
printf '#!/bin/sh\necho %s\n' "$pin" >"$scratch/pin"
printf '#!/bin/sh\necho wrong-pin\n' >"$scratch/wrong-pin"
chmod 755 "$scratch/pin" "$scratch/wrong-pin"
export SSH_ASKPASS=$scratch/pin SSH_ASKPASS_REQUIRE=force

keys() {
    generate_pair rsa rsa:2048 01
    generate_pair ecdsa EC:prime256v1 02
    limited ssh-keygen -D "$module" >"$scratch/public" 2>"$scratch/keygen.log"
    local name
    for name in rsa ecdsa; do
        # As OpenSSH writes what OpenSSL has of the same key.
        ssh-keygen -i -m PKCS8 -f "$scratch/$name.pub" >"$scratch/converted"
        grep -qF "$(cut -d' ' -f2 "$scratch/converted")" "$scratch/public"
    done
    ok 'ssh-keygen shows the public keys that OpenSSL sees'
}

# The token's keys alone may log in: what openssh-server.sh made may not.
logins() {
    local kind
    for kind in ssh-rsa ecdsa-sha2-nistp256; do
        grep "^$kind " "$scratch/public" >"$scratch/authorized"
        expect "what a command says that a key of kind $kind let in" \
            [ "$(secure_shell -o "PKCS11Provider=$module" "$login" echo answered)" = answered ]
    done
    ! SSH_ASKPASS=$scratch/wrong-pin secure_shell -o "PKCS11Provider=$module" "$login" true ||
        failed "$LINENO" 'a login with a wrong PIN'
    ! secure_shell -i "$scratch/user-ssh" "$login" true || failed "$LINENO" 'a login without the token'
    ok 'logins by PKCS11Provider with RSA and ECDSA'
}

agent() {
    local kind
    free_agent "$scratch/agent-$way"
    limited ssh-add -s "$module" >>"$scratch/agent.log" 2>&1
    expect 'two keys' [ "$(ssh-add -L | wc -l)" = 2 ]
    for kind in ssh-rsa ecdsa-sha2-nistp256; do
        grep "^$kind " "$scratch/public" >"$scratch/authorized"
        expect "what a command says that the agent's key of kind $kind let in" \
            [ "$(secure_shell -o "IdentityAgent=$SSH_AUTH_SOCK" "$login" echo answered)" = answered ]
    done
    # OpenSSH signs and verifies files as well.
    head -c 100000 /dev/urandom >"$scratch/message"
    grep '^ecdsa' "$scratch/public" >"$scratch/signer.pub"
    rm -f "$scratch/message.sig"
    limited ssh-keygen -q -Y sign -f "$scratch/signer.pub" -n file "$scratch/message" >>"$scratch/agent.log" 2>&1
    echo "signer $(cat "$scratch/signer.pub")" >"$scratch/signers"
    limited ssh-keygen -Y verify -f "$scratch/signers" -I signer -n file -s "$scratch/message.sig" <"$scratch/message" >>"$scratch/agent.log"
    limited ssh-add -e "$module" >>"$scratch/agent.log" 2>&1
    expect 'no keys after the token has left' [ "$(ssh-add -L | grep -c '^ssh\|^ecdsa')" = 0 ]
    stop TERM
    unset SSH_AUTH_SOCK
    ok 'logins by an agent, a signed file, and the token taken away'
}

# What has a token's keys; the allowlist is of paths as the agent finds them.
free_agent() { # SOCKET
    export SSH_AUTH_SOCK=$1
    start ssh-agent ssh-agent -D -a "$1" -P "$(realpath "$module")"
    expect 'an agent within 5 s' until_true 5 [ -S "$1" ]
}

check() {
    keys
    launch
    daemon=$server
    logins
    agent
    server=$daemon
    stop TERM
    ok 'stopped'
}
each_module check
