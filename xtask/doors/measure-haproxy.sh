#!/usr/bin/env bash
# HAProxy with the provider and without: full TLS handshakes a second with keys of three kinds, and whether all succeed.
# SECONDS_EACH (4) for each, CLIENTS (256) at a time, ROUNDS (3) of both in turns. HAProxy has the first core, the clients have the second.
program=measure-haproxy
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
command -v haproxy >/dev/null || lacks 'HAProxy (apt-get install haproxy)'
[ "$(nproc)" -ge 2 ] || lacks 'two cores'
prepare
seconds=${SECONDS_EACH:-4} clients=${CLIENTS:-256} rounds=${ROUNDS:-3}
free_port

configure() { # KEY
    cat <<END
global
    nbthread 1
    maxconn 2000
    $([ "$way" = default ] || echo ssl-mode-async)
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 5s
frontend tls
    bind 127.0.0.1:$port ssl crt $scratch/$1.pem
    http-request return status 200 content-type text/plain string answered
END
}

# Handshakes a second, in `handshakes`.
measure() { # KEY default|ciphermill
    use "$2"
    configure "$1" >"$scratch/haproxy.cfg"
    start haproxy "${with[@]}" taskset -c 0 haproxy -f "$scratch/haproxy.cfg" -db
    await "$port"
    taskset -c 1 "$load" "127.0.0.1:$port" "$clients" "$seconds" >"$scratch/load.log"
    stop TERM
    grep -q ' 0 failed' "$scratch/load.log"
    handshakes=$(sed -n 's/ handshakes a second.*//p' "$scratch/load.log")
    expect_operations 1
}

printf '%-12s %12s %12s %8s\n' 'key' 'default /s' 'ours /s' 'ratio'
make_authority
for name in rsa rsa4096 ecdsa; do
    make_pair "$name" "$name"
    for _ in $(seq "$rounds"); do
        # Not in a list with `&&`, where failures would be passed over.
        measure "$name" default
        before=$handshakes
        measure "$name" ciphermill
        printf '%-12s %12s %12s %8s\n' "$name" "$before" "$handshakes" \
            "$(awk "BEGIN { printf \"%.2f\", $handshakes / $before }")"
    done
done
