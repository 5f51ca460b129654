#!/usr/bin/env bash
# OpenSC's pkcs11-tool: its own tests of a module, and what it signs, agrees on and decrypts, compared with OpenSSL.
program=pkcs11-tool
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
head -c 4000 /dev/urandom >"$scratch/message"
head -c 100 "$scratch/message" >"$scratch/short"

# OpenSC's tests take the token as it is: empty, and with keys.
own_tests() {
    limited pkcs11-tool --module "$module" --token-label mill --login --pin "$pin" --test >"$scratch/test.log" 2>&1
    grep -qx 'No errors' "$scratch/test.log"
    grep -q 'SHA256: OK' "$scratch/test.log"
    ok 'its tests of an empty token'
}

tests_with_keys() {
    local line
    [ "$way" = ciphermill ] || { omitted '--test with keys: it gives up at OAEP with SHA-256, which SoftHSM 2.6.1 has not' && return; }
    limited pkcs11-tool --module "$module" --token-label mill --login --pin "$pin" --test >"$scratch/test.log" 2>&1
    grep -qx 'No errors' "$scratch/test.log"
    for line in 'RSA-X-509: OK' 'RSA-PKCS: OK' 'RSA-PKCS-OAEP: '; do grep -Eq "$line" "$scratch/test.log"; done
    ok 'its tests of a token with keys'
}

threads() {
    local each running=()
    [ "$way" = ciphermill ] || { omitted '--test-threads: SoftHSM 2.6.1 does not survive threads that initialise at the same time' && return; }
    # Without locks and with, each thread initialising first, then everything about slots and tokens. The tool waits for half a minute.
    for each in INGISLT0 ILGISLT0; do
        limited pkcs11-tool --module "$module" --test-threads "$each" --test-threads "$each" --test-threads "$each" \
            --test-threads "$each" >"$scratch/$each.log" 2>&1 &
        running+=("$!")
    done
    for each in "${running[@]}"; do wait "$each"; done
    for each in INGISLT0 ILGISLT0; do
        grep -q 'all threads have ended with CKR_OK' "$scratch/$each.log"
        expect "four threads that end well under $each" [ "$(grep -c 'state:-1, rv:CKR_OK' "$scratch/$each.log")" -ge 4 ]
    done
    ok 'its threads'
}

forks() {
    [ "$way" = ciphermill ] || { omitted '--test-fork: SoftHSM 2.6.1 refuses a child that initialises anew' && return; }
    limited pkcs11-tool --module "$module" --test-fork >"$scratch/fork.log" 2>&1
    ok 'a child that initialises once more'
}

sign() { # KEY-ID MECHANISM INPUT MORE...
    as_user --sign --id "$1" --mechanism "$2" --input-file "$3" --output-file "$scratch/signature" "${@:4}"
}

verified() { # NAME OPENSSL-DGST-ARGUMENTS...
    openssl dgst -verify "$scratch/$1.pub" "${@:2}" -signature "$scratch/signature" "$scratch/message" >>"$scratch/openssl.log" 2>&1
}

signatures() {
    local hash
    for hash in 1 256 384 512; do
        sign 01 "SHA$hash-RSA-PKCS" "$scratch/message"
        verified rsa "-sha$hash"
    done
    for hash in 256 512; do
        sign 01 "SHA$hash-RSA-PKCS-PSS" "$scratch/message"
        verified rsa "-sha$hash" -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest
    done
    openssl dgst -sha256 -binary "$scratch/message" >"$scratch/digest"
    sign 02 ECDSA "$scratch/digest" --signature-format openssl
    verified p256 -sha256
    openssl dgst -sha384 -binary "$scratch/message" >"$scratch/digest"
    sign 03 ECDSA "$scratch/digest" --signature-format openssl
    verified p384 -sha384
    # A test that cannot fail is none.
    ! verified p384 -sha256 || failed "$LINENO" 'OpenSSL verifies what was not signed'
    # Longer ones it would hand over in parts, which the mechanism has not.
    sign 04 EDDSA "$scratch/short"
    openssl pkeyutl -verify -pubin -inkey "$scratch/ed25519.pub" -rawin -in "$scratch/short" -sigfile "$scratch/signature" \
        >>"$scratch/openssl.log" 2>&1
    ok 'signatures of RSA, RSA-PSS, ECDSA and Ed25519, verified by OpenSSL'
}

decryption() {
    openssl pkeyutl -encrypt -pubin -inkey "$scratch/rsa.pub" -in "$scratch/short" -out "$scratch/encrypted"
    as_user --decrypt --id 01 --mechanism RSA-PKCS --input-file "$scratch/encrypted" --output-file "$scratch/decrypted"
    cmp "$scratch/short" "$scratch/decrypted"
    openssl pkeyutl -encrypt -pubin -inkey "$scratch/rsa.pub" -pkeyopt rsa_padding_mode:oaep -in "$scratch/short" -out "$scratch/encrypted"
    as_user --decrypt --id 01 --mechanism RSA-PKCS-OAEP --hash-algorithm SHA-1 --input-file "$scratch/encrypted" \
        --output-file "$scratch/decrypted"
    cmp "$scratch/short" "$scratch/decrypted"
    ok 'decryption of what OpenSSL has encrypted, PKCS #1 and OAEP'
}

agreement() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$scratch/peer.key" 2>>"$scratch/keys.txt"
    openssl pkey -in "$scratch/peer.key" -pubout -outform DER -out "$scratch/peer.der"
    as_user --derive --id 02 --mechanism ECDH1-DERIVE --input-file "$scratch/peer.der" --output-file "$scratch/agreed"
    openssl pkeyutl -derive -inkey "$scratch/peer.key" -peerkey "$scratch/p256.pub" -out "$scratch/expected"
    cmp "$scratch/expected" "$scratch/agreed"
    ok 'an agreement with OpenSSL over P-256'
}

# AES-CBC with a key that both know.
secret_keys() {
    local hex=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f iv=f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff
    xxd -r -p <<<"$hex" >"$scratch/aes.bin"
    as_user --write-object "$scratch/aes.bin" --type secrkey --key-type AES:32 --id 05 --label aes
    as_user --encrypt --id 05 --mechanism AES-CBC-PAD --iv "$iv" --input-file "$scratch/message" --output-file "$scratch/encrypted"
    openssl enc -aes-256-cbc -K "$hex" -iv "$iv" -in "$scratch/message" -out "$scratch/expected"
    cmp "$scratch/expected" "$scratch/encrypted"
    as_user --decrypt --id 05 --mechanism AES-CBC-PAD --iv "$iv" --input-file "$scratch/encrypted" --output-file "$scratch/decrypted"
    cmp "$scratch/message" "$scratch/decrypted"
    ok "AES-256-CBC, OpenSSL's bytes"
}

# What has to fail, with the return value that the standard names for it.
refusals() {
    local said
    said=$(limited pkcs11-tool --module "$module" --token-label mill --login --pin wrong-pin --list-objects 2>&1 || true)
    expect "CKR_PIN_INCORRECT for a wrong PIN, but it says $said" grep -q CKR_PIN_INCORRECT <<<"$said"
    as_user --delete-object --type privkey --id 03
    ! sign 03 ECDSA "$scratch/digest" || failed "$LINENO" 'a deleted key signs'
    tool --token-label mill --login --pin "$pin" --change-pin --new-pin 975310
    ! as_user --list-objects || failed "$LINENO" 'the old PIN is taken'
    tool --token-label mill --login --pin 975310 --list-objects
    ok 'wrong PINs, deleted keys, changed PINs'
}

check() {
    own_tests
    threads
    forks
    generate_pair rsa rsa:2048 01
    generate_pair p256 EC:prime256v1 02
    generate_pair p384 EC:secp384r1 03
    generate_pair ed25519 EC:edwards25519 04
    tests_with_keys
    signatures
    decryption
    agreement
    secret_keys
    refusals
}
each_module check
