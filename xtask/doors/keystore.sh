#!/usr/bin/env bash
# Servers whose private keys are in a keystore: they read files that name these, as root, and serve as somebody who may read neither.
program=keystore
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
ciphermill=$built/ciphermill
command -v nginx >/dev/null || lacks 'nginx (apt-get install nginx-light)'
command -v haproxy >/dev/null || lacks 'HAProxy (apt-get install haproxy)'
command -v apache2 >/dev/null || lacks 'Apache (apt-get install apache2-bin)'
prepare
make_authority
make_pair rsa rsa
make_pair ecdsa ecdsa
make_content 1
head -c 8000 "$scratch/root/content" >"$scratch/root/short" && mv "$scratch/root/short" "$scratch/root/content"
checksum=$(sha256sum <"$scratch/root/content")
free_port && rsa=$port
free_port && ecdsa=$port
is_root() { [ "$(id -u)" = 0 ]; }

# The keys go into the keystore, and files that name them to where they were.
mkdir -m 700 "$scratch/own"
head -c 32 /dev/urandom >"$scratch/own/master"
chmod 600 "$scratch/own/master"
store=(--keystore "$scratch/own/keys" --master-key-file "$scratch/own/master")
move_key() { # NAME SUITE
    "$ciphermill" keys import "$1" --file "$scratch/$1.key" --suite "$2" "${store[@]}" >>"$scratch/keys.txt" 2>&1
    "$ciphermill" openssl reference "$1" "${store[@]}" >"$scratch/$1.key"
    expect 'a reference is short' [ "$(wc -c <"$scratch/$1.key")" -lt 300 ]
    cat "$scratch/$1.key" "$scratch/$1.crt" >"$scratch/$1.pem"
}
move_key rsa rsa-2048-raw
move_key ecdsa ecdsa-p256-digest
: >"$scratch/machine.cnf"
OPENSSL_CONF='' "$ciphermill" openssl install --file "$scratch/installed.cnf" --extends "$scratch/machine.cnf" --module "$scratch/ciphermill.so" \
    "${store[@]}" >>"$scratch/keys.txt"
mv "$scratch/installed.cnf" "$scratch/ciphermill.cnf"

answers() {
    local each version
    for each in "$rsa" "$ecdsa"; do
        await "$each"
        for version in 1.2 1.3; do fetch "$each" "--tlsv$version" --tls-max "$version"; done
    done
}

# Nobody who serves may read the keystore.
serves_as_nobody() { # PROCESS...
    local each
    is_root || return 0
    for each in "$@"; do
        expect "process $each has given up its rights" [ "$(ps -o user= -p "$each")" = nobody ]
    done
}

try_nginx() {
    cat >"$scratch/nginx.conf" <<END
$(nginx_main 2 500)
http {
$(nginx_http)
    ssl_protocols TLSv1.2 TLSv1.3;
    root $scratch/root;
    server { listen 127.0.0.1:$rsa ssl; ssl_certificate $scratch/rsa.crt; ssl_certificate_key $scratch/rsa.key; }
    server { listen 127.0.0.1:$ecdsa ssl; ssl_certificate $scratch/ecdsa.crt; ssl_certificate_key $scratch/ecdsa.key; }
}
END
    start nginx "${with[@]}" nginx -e "$scratch/nginx-errors.log" -c "$scratch/nginx.conf"
    answers
    # shellcheck disable=SC2046 # one word for each process
    serves_as_nobody $(pgrep -P "$server")
    kill -s HUP "$server"
    sleep 1
    answers
    stop QUIT
    expect_operations 12
    ok 'nginx, with a reload'
}

try_haproxy() {
    cat >"$scratch/haproxy.cfg" <<END
global
    maxconn 500
    ssl-mode-async
    $(! is_root || printf 'user nobody\n    group nogroup\n    chroot %s' "$scratch/root")
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 5s
frontend both
    bind 127.0.0.1:$rsa ssl crt $scratch/rsa.pem
    bind 127.0.0.1:$ecdsa ssl crt $scratch/ecdsa.pem
    http-request return status 200 content-type application/octet-stream file $scratch/root/content
END
    start haproxy "${with[@]}" haproxy -f "$scratch/haproxy.cfg" -db
    answers
    serves_as_nobody "$server"
    load_begin "$rsa" 64 2
    load_ended
    stop TERM
    ok "HAProxy in a changed root, 64 clients at a time"
}

try_apache() {
    cat >"$scratch/apache.conf" <<END
$(apache_main)
Listen 127.0.0.1:$rsa
Listen 127.0.0.1:$ecdsa
<VirtualHost 127.0.0.1:$rsa>
SSLEngine on
SSLCertificateFile $scratch/rsa.crt
SSLCertificateKeyFile $scratch/rsa.key
</VirtualHost>
<VirtualHost 127.0.0.1:$ecdsa>
SSLEngine on
SSLCertificateFile $scratch/ecdsa.crt
SSLCertificateKeyFile $scratch/ecdsa.key
</VirtualHost>
END
    start apache "${with[@]}" apache2 -f "$scratch/apache.conf" -DFOREGROUND
    answers
    stop TERM
    ok 'Apache'
}

use ciphermill
try_nginx
try_haproxy
try_apache
