#!/usr/bin/env bash
# NSS: the module in a database of its own, keys, requests and certificates by certutil, messages of cmsutil.
program=pkcs11-nss
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
{ command -v modutil && command -v certutil && command -v cmsutil; } >/dev/null || lacks 'modutil, certutil and cmsutil (apt-get install libnss3-tools)'
make_authority
head -c 4000 /dev/urandom >"$scratch/noise"

nss() { # TOOL ARGUMENTS...
    limited "$1" -d "sql:$folder/nss" "${@:2}" >>"$scratch/nss.log" 2>&1
}

database() {
    mkdir -p "$folder/nss"
    printf '%s\n' "$pin" >"$scratch/pin"
    : >"$scratch/no-pin"
    nss certutil -N --empty-password
    limited modutil -dbdir "sql:$folder/nss" -force -add tried -libfile "$module" >>"$scratch/nss.log" 2>&1
    limited modutil -dbdir "sql:$folder/nss" -list tried >"$scratch/modutil.log" 2>&1
    grep -q 'Token Name: *mill' "$scratch/modutil.log"
    grep -Eq 'Login Type: *Login required' "$scratch/modutil.log"
    ok 'modutil adds the module and shows its token'
}

# With a request and the certificate that the authority gives for it, which goes into the token.
pair() { # NAME KIND...
    limited certutil -R -d "sql:$folder/nss" -h mill -f "$scratch/pin" -z "$scratch/noise" -s "CN=$1" "${@:2}" -a -o "$scratch/$1.csr" \
        >>"$scratch/nss.log" 2>&1
    openssl req -in "$scratch/$1.csr" -verify -noout >>"$scratch/openssl.log" 2>&1
    openssl x509 -req -in "$scratch/$1.csr" -CA "$scratch/authority.crt" -CAkey "$scratch/authority.key" -days 2 \
        -extfile "$scratch/names" -out "$scratch/$1.crt" 2>>"$scratch/openssl.log"
    nss certutil -A -h mill -f "$scratch/pin" -n "$1" -t ,, -i "$scratch/$1.crt" -a
    # It knows of each certificate whether the token has its private key: `u`.
    limited certutil -L -d "sql:$folder/nss" -h mill -f "$scratch/pin" >"$scratch/certificates.log" 2>&1
    grep -Eq "^mill:$1 +u,u,u" "$scratch/certificates.log"
}

keys() {
    # The authority, whom NSS has to trust, in its own database.
    nss certutil -A -n authority -t CT,C, -i "$scratch/authority.crt" -a
    pair rsa -k rsa -g 2048
    pair ecdsa -k ec -q nistp256
    limited certutil -K -d "sql:$folder/nss" -h mill -f "$scratch/pin" >"$scratch/listed.log" 2>&1
    expect 'two private keys' [ "$(grep -c '^<' "$scratch/listed.log")" = 2 ]
    nss certutil -V -h mill -f "$scratch/pin" -n mill:rsa -u V -e
    nss certutil -V -h mill -f "$scratch/pin" -n mill:ecdsa -u V -e
    ok 'certutil makes keys, whose requests OpenSSL verifies, and finds private keys of certificates'
}

# A certificate that a key of the token signs for itself.
issue() {
    nss certutil -S -h mill -f "$scratch/pin" -z "$scratch/noise" -n root -s CN=root -x -t CT,C, -k rsa -g 2048 -v 2 -m 1
    limited certutil -L -d "sql:$folder/nss" -h mill -n mill:root -f "$scratch/pin" -a >"$scratch/root.crt" 2>>"$scratch/nss.log"
    openssl verify -check_ss_sig -CAfile "$scratch/root.crt" "$scratch/root.crt" >>"$scratch/openssl.log" 2>&1
    ok 'a certificate that the token signs and OpenSSL verifies'
}

messages() {
    local name
    for name in rsa ecdsa; do
        limited cmsutil -S -d "sql:$folder/nss" -f "$scratch/pin" -N "mill:$name" -G -i "$scratch/noise" -o "$scratch/signed" >>"$scratch/nss.log" 2>&1
        openssl cms -verify -inform DER -in "$scratch/signed" -CAfile "$scratch/authority.crt" -purpose any -binary -out "$scratch/message" \
            2>>"$scratch/openssl.log"
        cmp "$scratch/noise" "$scratch/message"
    done
    openssl cms -encrypt -binary -aes256 -in "$scratch/noise" -outform DER -out "$scratch/encrypted" "$scratch/rsa.crt"
    limited cmsutil -D -d "sql:$folder/nss" -f "$scratch/pin" -i "$scratch/encrypted" -o "$scratch/message" >>"$scratch/nss.log" 2>&1
    cmp "$scratch/noise" "$scratch/message"
    ok 'messages of CMS: signed for OpenSSL with RSA and ECDSA, and decrypted from it'
}

removal() {
    nss certutil -F -h mill -f "$scratch/pin" -n mill:ecdsa
    limited certutil -K -d "sql:$folder/nss" -h mill -f "$scratch/pin" >"$scratch/listed.log" 2>&1
    ! grep -q 'mill:ecdsa' "$scratch/listed.log" || failed "$LINENO" 'a deleted key is listed'
    limited modutil -dbdir "sql:$folder/nss" -force -delete tried >>"$scratch/nss.log" 2>&1
    ok 'a key and the module taken away'
}

check() {
    database
    keys
    issue
    messages
    removal
}
each_module check
