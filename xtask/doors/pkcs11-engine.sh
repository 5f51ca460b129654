#!/usr/bin/env bash
# Programs of OpenSSL by libp11's engine: openssl, curl and nginx with their private keys in the token.
program=pkcs11-engine
# shellcheck source=xtask/doors/pkcs11-module.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkcs11-module.sh"
PATH=$PATH:/usr/sbin
engine=$(echo /usr/lib/*/engines-3/pkcs11.so)
[ -e "$engine" ] || lacks "libp11's engine (apt-get install libengine-pkcs11-openssl)"
command -v nginx >/dev/null || lacks 'nginx (apt-get install nginx-light)'
command -v curl >/dev/null || lacks 'curl (apt-get install curl)'
make_authority
for kind in rsa ecdsa; do
    make_pair "$kind" "$kind"
    openssl pkey -in "$scratch/$kind.key" -pubout -out "$scratch/$kind.pub"
done
make_pair client ecdsa
make_content 4

configure() {
    cat >"$folder/engine.cnf" <<-END_OF_FILE
	openssl_conf = init
	[init]
	engines = engines
	[engines]
	pkcs11 = token
	[token]
	engine_id = pkcs11
	dynamic_path = $engine
	MODULE_PATH = $module
	init = 0
	END_OF_FILE
    with=(env "OPENSSL_CONF=$folder/engine.cnf")
}

key() { echo "$token;object=$1;type=private?pin-value=$pin"; }

import_keys() {
    import_pair rsa 01
    import_pair ecdsa 02
    import_pair client 03
    # What signs from here on is in the token.
    mkdir -p "$scratch/away"
    mv "$scratch/rsa.key" "$scratch/ecdsa.key" "$scratch/client.key" "$scratch/away"
}

# For the other module they come back.
forget() { mv "$scratch/away"/*.key "$scratch"; }

signatures() {
    local kind
    head -c 4000 /dev/urandom >"$scratch/message"
    for kind in rsa ecdsa; do
        limited "${with[@]}" openssl dgst -engine pkcs11 -keyform engine -sha256 -sign "$(key "$kind")" -out "$scratch/signature" \
            "$scratch/message" 2>>"$scratch/openssl.log"
        openssl dgst -sha256 -verify "$scratch/$kind.pub" -signature "$scratch/signature" "$scratch/message" >>"$scratch/openssl.log"
    done
    limited "${with[@]}" openssl dgst -engine pkcs11 -keyform engine -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest \
        -sign "$(key rsa)" -out "$scratch/signature" "$scratch/message" 2>>"$scratch/openssl.log"
    openssl dgst -sha256 -sigopt rsa_padding_mode:pss -verify "$scratch/rsa.pub" -signature "$scratch/signature" "$scratch/message" \
        >>"$scratch/openssl.log"
    limited "${with[@]}" openssl req -new -engine pkcs11 -keyform engine -key "$(key rsa)" -subj /CN=rsa -out "$scratch/again.csr" \
        2>>"$scratch/openssl.log"
    openssl req -in "$scratch/again.csr" -verify -noout >>"$scratch/openssl.log" 2>&1
    ok "openssl's signatures with RSA, RSA-PSS and ECDSA, and a request, verified without the token"
}

servers() {
    local each version
    free_port && rsa=$port
    free_port && ecdsa=$port
    free_port && both=$port
    # Each worker reads the token anew, for which it needs the rights of whoever owns it.
    cat >"$scratch/nginx.conf" <<-END_OF_FILE
	$(nginx_main 2 500 | sed "s/^user nobody nogroup;/user root;/")
	ssl_engine pkcs11;
	env CIPHERMILL_PKCS11_CONF;
	env SOFTHSM2_CONF;
	env OPENSSL_CONF;
	http {
	$(nginx_http)
	    ssl_protocols TLSv1.2 TLSv1.3;
	    root $scratch/root;
	    server { $(listen "$rsa" rsa) location = /small { return 200 answered; } }
	    server { $(listen "$ecdsa" ecdsa) }
	    server { $(listen "$both" rsa) ssl_client_certificate $scratch/authority.crt; ssl_verify_client on; }
	}
	END_OF_FILE
    start nginx "${with[@]}" nginx -e "$scratch/nginx-errors.log" -c "$scratch/nginx.conf"
    await "$both"
    for version in 1.2 1.3; do
        for each in "$rsa" "$ecdsa"; do fetch "$each" "--tlsv$version" --tls-max "$version"; done
        limited "${with[@]}" curl -sS --fail --cacert "$scratch/authority.crt" "--tlsv$version" --tls-max "$version" --engine pkcs11 \
            --key-type ENG --key "$(key client)" --cert "$scratch/client.crt" "https://localhost:$both/content" -o "$scratch/fetched" \
            2>>"$scratch/client.log"
        expect "the content over TLS $version as it was sent" [ "$(sha256sum <"$scratch/fetched")" = "$checksum" ]
    done
    ! limited curl -s --fail --cacert "$scratch/authority.crt" "https://localhost:$both/content" -o "$scratch/none" ||
        failed "$LINENO" 'a client without a certificate was served'
    ok 'nginx and curl with keys in the token, TLS 1.2 and 1.3, 4 MB each compared'
    [ ! -x "$load" ] || under_load
    stop QUIT
}

under_load() {
    load_begin "$rsa" 32 4 /small
    sleep 1
    kill -s HUP "$server"
    load_ended
    fetch "$rsa"
    ok "32 clients at a time and a reload, $handshakes handshakes a second"
}

listen() { # PORT NAME
    printf 'listen 127.0.0.1:%s ssl; ssl_certificate %s.crt; ssl_certificate_key "engine:pkcs11:%s";' "$1" "$scratch/$2" "$(key "$2")"
}

check() {
    configure
    import_keys
    signatures
    servers
    forget
}
each_module check
