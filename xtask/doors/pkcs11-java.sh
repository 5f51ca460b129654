#!/usr/bin/env bash
# Java's SunPKCS11: what a token computes beside what Java does, keys by keytool, a jar that jarsigner signs, a server of JSSE.
program=pkcs11-java
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
{ command -v javac && command -v keytool && command -v jarsigner; } >/dev/null || lacks 'a JDK (apt-get install default-jdk-headless)'
make_authority
make_pair client ecdsa
javac -d "$scratch/classes" xtask/doors/java/*.java
LIMIT_SECONDS=180

configure() {
    printf 'name = Tried\nlibrary = %s\nslotListIndex = 0\n' "$module" >"$folder/java.cfg"
    # Keys of the session are for whatever the program does with them.
    printf 'attributes(*, CKO_PRIVATE_KEY, CKK_EC) = { CKA_DERIVE = true CKA_SIGN = true }\n' >>"$folder/java.cfg"
    printf 'attributes(generate, CKO_SECRET_KEY, CKK_GENERIC_SECRET) = { CKA_SENSITIVE = false CKA_EXTRACTABLE = true }\n' >>"$folder/java.cfg"
    store=(-keystore NONE -storetype PKCS11 -storepass "$pin" -providerClass sun.security.pkcs11.SunPKCS11 -providerArg "$folder/java.cfg")
}

compared() {
    limited java -cp "$scratch/classes" Compare "$folder/java.cfg" "$pin" >"$scratch/compare.log" 2>&1
    count=$(sed -n 's/^compared: //p' "$scratch/compare.log")
    expect "hundreds of comparisons, but there were $count" [ "$count" -ge 300 ]
    # Of SoftHSM 2.6.1 Java takes a few in a hundred verifications of ECDSA for refused.
    [ "$way" = softhsm ] || ! grep '^wrong' "$scratch/compare.log" || failed "$LINENO" 'values as Java computes them'
    ok "$count values as Java's own providers compute them or take them"
    while read -r line; do omitted "Java sees no $line"; done < <(sed -n 's/^not had: //p' "$scratch/compare.log" | sort -u)
}

keys() {
    local name
    limited keytool -genkeypair "${store[@]}" -alias rsa -keyalg RSA -keysize 2048 -sigalg SHA256withRSA -dname CN=rsa >>"$scratch/keytool.log" 2>&1
    limited keytool -genkeypair "${store[@]}" -alias ecdsa -keyalg EC -groupname secp256r1 -sigalg SHA256withECDSA -dname CN=ecdsa \
        >>"$scratch/keytool.log" 2>&1
    for name in rsa ecdsa; do
        limited keytool -certreq "${store[@]}" -alias "$name" -file "$scratch/$name.csr" >>"$scratch/keytool.log" 2>&1
        openssl req -in "$scratch/$name.csr" -verify -noout >>"$scratch/openssl.log" 2>&1
        openssl x509 -req -in "$scratch/$name.csr" -CA "$scratch/authority.crt" -CAkey "$scratch/authority.key" -days 2 \
            -extfile "$scratch/names" -out "$scratch/$name.crt" 2>>"$scratch/openssl.log"
        cat "$scratch/$name.crt" "$scratch/authority.crt" >"$scratch/chain.pem"
        limited keytool -importcert -noprompt "${store[@]}" -alias "$name" -file "$scratch/chain.pem" >>"$scratch/keytool.log" 2>&1
    done
    limited keytool -list "${store[@]}" >"$scratch/listed.log" 2>&1
    expect 'two entries with keys' [ "$(grep -c PrivateKeyEntry "$scratch/listed.log")" = 2 ]
    ok 'keytool makes keys, whose requests OpenSSL verifies, and takes their chains'
}

jars() {
    local name
    rm -f "$scratch/trusted.p12"
    keytool -importcert -noprompt -keystore "$scratch/trusted.p12" -storepass trusted -alias authority -file "$scratch/authority.crt" \
        >>"$scratch/keytool.log" 2>&1
    for name in rsa ecdsa; do
        jar --create --file "$scratch/$name.jar" -C "$scratch/classes" .
        limited jarsigner "${store[@]}" "$scratch/$name.jar" "$name" >>"$scratch/jarsigner.log" 2>&1
        limited jarsigner -verify -keystore "$scratch/trusted.p12" -storepass trusted "$scratch/$name.jar" >"$scratch/verified.log" 2>&1
        grep -q '^jar verified' "$scratch/verified.log"
        ! grep -q 'chain is invalid' "$scratch/verified.log" || failed "$LINENO" 'the chain of a signed jar'
    done
    ok 'jarsigner signs with RSA and ECDSA, verified without the token'
}

handshakes() {
    local version kind
    free_port
    start java java -cp "$scratch/classes" Serve "$folder/java.cfg" "$pin" "$scratch/authority.crt" "$port"
    expect 'a server within 30 s' until_true 30 listens "$port"
    for version in 1_2 1_3; do
        for kind in RSA ECDSA; do
            limited openssl s_client -connect "localhost:$port" -CAfile "$scratch/authority.crt" -verify_return_error "-tls$version" \
                -sigalgs "$(algorithms "$kind")" -cipher "a$kind" -cert "$scratch/client.crt" -key "$scratch/client.key" </dev/null >"$scratch/s_client.log" 2>&1 ||
                [ "$version" = 1_3 ]
            grep -q 'Verify return code: 0 (ok)' "$scratch/s_client.log"
            grep -q "^Peer signature type: $kind" "$scratch/s_client.log"
        done
    done
    # What it answers, whole, and nothing for those without a certificate.
    limited openssl s_client -connect "localhost:$port" -CAfile "$scratch/authority.crt" -tls1_3 -ign_eof -quiet \
        -cert "$scratch/client.crt" -key "$scratch/client.key" <<<'' >"$scratch/answer" 2>>"$scratch/openssl.log"
    grep -qx 'answered over TLSv1.3' "$scratch/answer"
    limited openssl s_client -connect "localhost:$port" -tls1_3 -ign_eof -quiet </dev/null >"$scratch/answer" 2>>"$scratch/openssl.log" || true
    expect 'no answer without a certificate' [ ! -s "$scratch/answer" ]
    stop TERM
    ok 'handshakes of a JSSE server, TLS 1.2 and 1.3 with RSA and ECDSA, certificates of clients'
}

# What a client likes best; it has to take ECDSA in any case, with which the authority signs.
algorithms() { # RSA|ECDSA
    case $1 in RSA) echo RSA-PSS+SHA256:RSA+SHA256:ECDSA+SHA256 ;; *) echo ECDSA+SHA256 ;; esac
}

check() {
    configure
    compared
    keys
    jars
    handshakes
}
each_module check
