#!/usr/bin/env bash
# nginx: versions of TLS, kinds of keys, certificates of clients, reloads under load.
program=nginx
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
command -v nginx >/dev/null || lacks 'nginx (apt-get install nginx-light)'
command -v curl >/dev/null || lacks 'curl (apt-get install curl)'
prepare
make_authority
make_pair rsa rsa
make_pair ecdsa ecdsa
make_pair client ecdsa
make_content 4
free_port && rsa=$port
free_port && ecdsa=$port
free_port && both=$port

tls() { # PORT NAME
    printf 'listen 127.0.0.1:%s ssl; ssl_certificate %s.crt; ssl_certificate_key %s.key;' "$1" "$scratch/$2" "$scratch/$2"
}

cat >"$scratch/nginx.conf" <<END
$(nginx_main 2 2000)
http {
$(nginx_http)
    ssl_protocols TLSv1.2 TLSv1.3;
    root $scratch/root;
    server { $(tls "$rsa" rsa) location = /small { return 200 answered; } }
    server { $(tls "$ecdsa" ecdsa) }
    server { $(tls "$both" rsa) ssl_client_certificate $scratch/authority.crt; ssl_verify_client on; }
}
END

versions() {
    local version kind
    for version in 1.2 1.3; do
        for kind in "$rsa" "$ecdsa"; do fetch "$kind" "--tlsv$version" --tls-max "$version"; done
        fetch "$both" "--tlsv$version" --tls-max "$version" --cert "$scratch/client.crt" --key "$scratch/client.key"
        ! limited curl -s --fail --cacert "$scratch/authority.crt" "https://localhost:$both/content" -o "$scratch/none" ||
            failed "$LINENO" 'a client without a certificate was served'
    done
    # A signature and an agreement for each.
    expect_operations 12
    ok 'TLS 1.2 and 1.3 with RSA, ECDSA and certificates of clients, 4 MB each compared'
}

reloads() {
    local before
    load_begin "$rsa" 64 4 /small
    for _ in 1 2 3; do
        sleep 1
        before=$(pgrep -P "$server" | sort)
        kill -s HUP "$server"
        until_true 5 other_workers "$before"
    done
    load_ended
    fetch "$rsa"
    ok "three reloads under the load of 64 clients, none of whom failed"
}

other_workers() { # THOSE-BEFORE
    local now
    now=$(pgrep -P "$server" | sort)
    [ -n "$(comm -13 <(echo "$1") <(echo "$now"))" ]
}

check() {
    start nginx "${with[@]}" nginx -e "$scratch/nginx-errors.log" -c "$scratch/nginx.conf"
    await "$both"
    versions
    reloads
    stop QUIT
    ok 'stopped'
}
each_way check
