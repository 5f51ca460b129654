#!/usr/bin/env bash
# OpenSC's pkcs11-tool and OpenSSH with the metaslot: keys of two tokens of SoftHSM by way of our module, compared with OpenSSL.
program=pkcs11-metaslot
MODULES=ciphermill
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
[ -n "$theirs" ] || lacks 'SoftHSM, whose tokens are attached (apt-get install softhsm2)'
head -c 4000 /dev/urandom >"$scratch/message"
head -c 100 "$scratch/message" >"$scratch/short"

attach() {
    local name token_pin=48151623
    mkdir "$folder/softhsm"
    printf 'directories.tokendir = %s/softhsm\nlog.level = ERROR\n' "$folder" >"$SOFTHSM2_CONF"
    (umask 077 && echo "$token_pin" >"$folder/pin")
    openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$scratch/rsa.key" 2>>"$scratch/openssl.log"
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$scratch/p256.key"
    for name in one two; do
        softhsm2-util --init-token --free --label "$name" --so-pin 11223344 --pin "$token_pin" >>"$scratch/softhsm.log"
        softhsm2-util --import "$scratch/rsa.key" --token "$name" --label rsa --id 01 --pin "$token_pin" >>"$scratch/softhsm.log"
        softhsm2-util --import "$scratch/p256.key" --token "$name" --label p256 --id 02 --pin "$token_pin" >>"$scratch/softhsm.log"
        printf '[[token]]\nname = "%s"\nmodule = "%s"\nlabel = "%s"\npin_file = "pin"\n' "$name" "$theirs" "$name" \
            >>"$CIPHERMILL_PKCS11_CONF"
    done
    for name in rsa p256; do openssl pkey -in "$scratch/$name.key" -pubout -out "$scratch/$name.pub"; done
}

by_metaslot() { limited pkcs11-tool --module "$module" --token-label 'Ciphermill metaslot' --login --pin "$pin" "$@" 2>>"$scratch/pkcs11-tool.log"; }

verified() { # NAME OPENSSL-DGST-ARGUMENTS...
    openssl dgst -verify "$scratch/$1.pub" "${@:2}" -signature "$scratch/signature" "$scratch/message" >>"$scratch/openssl.log" 2>&1
}

sign() { # KEY-ID MECHANISM INPUT MORE...
    by_metaslot --sign --id "$1" --mechanism "$2" --input-file "$3" --output-file "$scratch/signature" "${@:4}" >>"$scratch/pkcs11-tool.log"
}

check() {
    attach
    by_metaslot --list-objects --type privkey >"$scratch/listed.log"
    expect 'each key of both tokens once' [ "$(grep -c 'Private Key Object' "$scratch/listed.log")" = 2 ]
    sign 01 SHA256-RSA-PKCS "$scratch/message"
    verified rsa -sha256
    sign 01 SHA256-RSA-PKCS-PSS "$scratch/message"
    verified rsa -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest
    openssl dgst -sha256 -binary "$scratch/message" >"$scratch/digest"
    sign 02 ECDSA "$scratch/digest" --signature-format openssl
    verified p256 -sha256
    # A test that cannot fail is none.
    ! verified p256 -sha384 || failed "$LINENO" 'OpenSSL verifies what was not signed'
    ok "signatures with the tokens' keys, verified by OpenSSL"
    openssl pkeyutl -encrypt -pubin -inkey "$scratch/rsa.pub" -in "$scratch/short" -out "$scratch/encrypted"
    by_metaslot --decrypt --id 01 --mechanism RSA-PKCS --input-file "$scratch/encrypted" --output-file "$scratch/decrypted" \
        >>"$scratch/pkcs11-tool.log"
    cmp "$scratch/short" "$scratch/decrypted"
    ok 'what OpenSSL encrypted'
    by_metaslot --keypairgen --key-type EC:prime256v1 --id 03 --label own >>"$scratch/pkcs11-tool.log"
    limited pkcs11-tool --module "$module" --token-label mill --login --pin "$pin" --list-objects --type privkey >"$scratch/own.log" 2>&1
    grep -q 'label: *own' "$scratch/own.log"
    expect "none of the tokens' keys in the keystore's slot" [ "$(grep -c 'Private Key Object' "$scratch/own.log")" = 1 ]
    ok 'a pair that the metaslot makes, in the keystore'
    command -v ssh-keygen >/dev/null || { omitted 'ssh-keygen is not installed' && return; }
    chmod 600 "$scratch"/*.key
    limited ssh-keygen -D "$module" >"$scratch/ssh.log" 2>>"$scratch/ssh-errors.log"
    grep -qF "$(ssh-keygen -y -f "$scratch/rsa.key" | cut -d ' ' -f 2)" "$scratch/ssh.log"
    ok "ssh-keygen lists the tokens' public key"
}

use_module ciphermill
check
