#!/usr/bin/env bash
# p11-kit and GnuTLS: the module by a module file, p11tool's keys and objects, requests for certificates that OpenSSL believes, and
# handshakes whose server and client have their keys in the token.
program=pkcs11-gnutls
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
command -v p11-kit >/dev/null || lacks 'p11-kit (apt-get install p11-kit)'
{ command -v p11tool && command -v certtool && command -v gnutls-serv; } >/dev/null || lacks 'GnuTLS (apt-get install gnutls-bin)'
make_authority

# Programs that find the module by p11-kit, whose folder of module files is a private one for them.
kit() {
    local spaces=(unshare --mount)
    [ "$(id -u)" = 0 ] || spaces=(unshare --map-root-user --mount)
    limited "${spaces[@]}" sh -euc 'mount --bind "$1" "$2"; shift 2; exec "$@"' sh "$folder/modules" "$kit_folder" "$@"
}
kit_folder=/usr/share/p11-kit/modules

listed() {
    mkdir -p "$folder/modules"
    if [ "$way" = ciphermill ] && [ -e "$built/ciphermill" ]; then
        "$built/ciphermill" pkcs11 install --file "$folder/modules/tried.module" --module "$module" >>"$scratch/install.log" 2>&1
    else
        printf '# A check.\nmodule: %s\n' "$module" >"$folder/modules/tried.module"
    fi
    kit p11-kit list-modules >"$scratch/modules.log" 2>&1
    expect 'one module' [ "$(grep -c '^[^ ]' "$scratch/modules.log")" = 1 ]
    grep -q "^tried: .*$(basename "$module")" "$scratch/modules.log"
    grep -q 'token: mill' "$scratch/modules.log"
    expect 'flags that tell a token with a PIN' \
        [ "$(grep -cE '^ +(login-required|user-pin-initialized|token-initialized)$' "$scratch/modules.log")" -ge 3 ]
    kit p11tool --list-tokens >"$scratch/tokens.log" 2>&1
    grep -q 'Label: mill' "$scratch/tokens.log"
    ok 'p11-kit lists module and token, and p11tool finds them by it'
}

p11tool() { GNUTLS_PIN=$pin GNUTLS_SO_PIN=$so_pin limited env p11tool --provider "$module" --batch "$@" >>"$scratch/p11tool.log" 2>&1; }

keys() {
    local name id=0
    p11tool --login --generate-privkey=rsa --bits 2048 --label rsa --id 01 "$token"
    p11tool --login --generate-privkey=ecdsa --curve secp256r1 --label ecdsa --id 02 "$token"
    p11tool --login --generate-privkey=rsa --bits 2048 --label client --id 03 "$token"
    for name in rsa ecdsa client; do
        p11tool --login --test-sign "$token;object=$name"
        request "$name" "$((++id))"
    done
    p11tool --login --list-all "$token" --outfile "$scratch/objects"
    for name in rsa ecdsa client; do
        expect "private and public key and certificate of $name" [ "$(grep -c "^[[:space:]]*Label: $name\$" "$scratch/objects")" = 3 ]
    done
    ok 'p11tool makes keys and tests them; OpenSSL verifies their requests for certificates'
}

# A request that the token's key signs, and the certificate, which goes into the token too.
request() { # NAME
    printf 'cn = "%s"\n' "$1" >"$scratch/request.template"
    limited certtool --provider "$module" --generate-request --load-privkey "$(key "$1")" --load-pubkey "$token;object=$1;type=public" \
        --hash sha256 --template "$scratch/request.template" --outfile "$scratch/$1.csr" >>"$scratch/certtool.log" 2>&1
    openssl req -in "$scratch/$1.csr" -verify -noout >>"$scratch/openssl.log" 2>&1
    openssl x509 -req -in "$scratch/$1.csr" -CA "$scratch/authority.crt" -CAkey "$scratch/authority.key" -days 2 \
        -extfile "$scratch/names" -out "$scratch/$1.crt" 2>>"$scratch/openssl.log"
    p11tool --login --write --load-certificate "$scratch/$1.crt" --label "$1" --id "0$2" "$token"
    p11tool --export "$token;object=$1;type=cert" --outfile "$scratch/exported.crt"
    openssl verify -CAfile "$scratch/authority.crt" "$scratch/exported.crt" >>"$scratch/openssl.log" 2>&1
    cmp <(openssl x509 -in "$scratch/exported.crt" -outform DER) <(openssl x509 -in "$scratch/$1.crt" -outform DER)
}

key() { echo "$token;object=$1;type=private?pin-value=$pin"; }

handshakes() {
    local name version
    for name in rsa ecdsa; do
        free_port
        start gnutls-serv gnutls-serv --provider "$module" --http --port "$port" --x509keyfile "$(key "$name")" \
            --x509certfile "$scratch/$name.crt" --x509cafile "$scratch/authority.crt" --require-client-cert --verify-client-cert
        await "$port"
        for version in 1.2 1.3; do
            printf 'GET / HTTP/1.0\r\n\r\n' | limited gnutls-cli --provider "$module" --port "$port" localhost \
                --priority "NORMAL:-VERS-ALL:+VERS-TLS$version" --x509cafile "$scratch/authority.crt" \
                --x509certfile "$token;object=client;type=cert" --x509keyfile "$(key client)" >"$scratch/gnutls-cli.log" 2>&1
            grep -q 'Handshake was completed' "$scratch/gnutls-cli.log"
            grep -q "(TLS$version-X.509)\|(TLS$version)" "$scratch/gnutls-cli.log"
            # What the server has seen of the client.
            grep -q 'CN=client' "$scratch/gnutls-cli.log"
        done
        # OpenSSL's client, which knows nothing of tokens, and who is refused without a certificate.
        ! openssl s_client -connect "localhost:$port" -CAfile "$scratch/authority.crt" -verify_return_error -tls1_2 </dev/null \
            >"$scratch/s_client.log" 2>&1 || failed "$LINENO" 'a client without a certificate was served'
        grep -q 'Verify return code: 0' "$scratch/s_client.log" || grep -q 'Verification: OK' "$scratch/s_client.log"
        stop TERM
    done
    ok 'handshakes of gnutls-serv and gnutls-cli, TLS 1.2 and 1.3, keys of both in the token'
}

check() {
    listed
    keys
    handshakes
}
each_module check
