#!/usr/bin/env bash
# PostgreSQL: its server loads the provider and forks a process for each connection.
program=postgres
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
binaries=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$binaries/initdb" ] || lacks 'PostgreSQL (apt-get install postgresql)'
command -v psql >/dev/null || lacks 'psql (apt-get install postgresql-client)'
prepare
make_authority
make_pair rsa rsa
make_pair ecdsa ecdsa

# The server refuses to be root.
as_owner=(env)
owner=$(id -un)
if [ "$(id -u)" = 0 ]; then
    owner=nobody
    as_owner=(setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/nonexistent)
fi
data=$scratch/data/$owner
mkdir -p "$scratch/data"
chown "$owner" "$scratch/data"
"${as_owner[@]}" "$binaries/initdb" -D "$data" -U tester -A trust --no-sync >"$scratch/initdb.log" 2>&1

configure() { # rsa|ecdsa
    install -m 600 -o "$owner" "$scratch/$1.key" "$data/server.key"
    install -m 644 -o "$owner" "$scratch/$1.crt" "$data/server.crt"
}

ask() { # PARAMETERS SQL
    limited "${with[@]}" psql -X -At -c "$2" \
        "host=127.0.0.1 port=$port user=tester dbname=postgres sslrootcert=$scratch/authority.crt $1" 2>>"$scratch/client.log"
}

# A megabyte of text, compared with the checksum that the server makes of it.
compare() { # PARAMETERS
    local text="string_agg(md5(i::text), '') from generate_series(1, 32768) i"
    ask "$1" "select $text" >"$scratch/answer"
    expect 'a megabyte and its line end' [ "$(wc -c <"$scratch/answer")" = 1048577 ]
    ask "$1" "select encode(sha256(convert_to(t, 'UTF8')), 'hex') from (select $text) as all_of_it(t)" >"$scratch/checksum"
    expect 'the answer as it was sent' [ "$(tr -d '\n' <"$scratch/answer" | sha256sum | cut -d' ' -f1)" = "$(cat "$scratch/checksum")" ]
}

queries() {
    local version
    for version in TLSv1.2 TLSv1.3; do
        compare "sslmode=require ssl_min_protocol_version=$version ssl_max_protocol_version=$version"
    done
    expect 'the connection is encrypted' \
        [ "$(ask sslmode=verify-ca 'select ssl from pg_stat_ssl where pid = pg_backend_pid()')" = t ]
    ok "sslmode=require in TLS 1.2 and 1.3 with $1, 1 MB each compared"
}

at_once() {
    local clients=()
    for _ in $(seq 24); do
        ask sslmode=verify-full 'select pg_sleep(0.2)' >/dev/null &
        clients+=("$!")
    done
    for client in "${clients[@]}"; do wait "$client"; done
    # Both ends agree, the server signs.
    expect_operations 72
    ok '24 connections at once, a process each'
}

check() {
    configure rsa
    free_port
    start postgres "${as_owner[@]}" "${with[@]:1}" "$binaries/postgres" -D "$data" -p "$port" -k "$data" \
        -c ssl=on -c listen_addresses=127.0.0.1 -c fsync=off
    await "$port"
    queries RSA
    at_once
    configure ecdsa
    kill -s HUP "$server"
    expect 'the other certificate after a reload' until_true 10 serves_ecdsa
    queries 'ECDSA, after a reload'
    stop INT
    ok 'stopped'
}

serves_ecdsa() {
    limited openssl s_client -starttls postgres -connect "127.0.0.1:$port" </dev/null 2>/dev/null | grep -q 'subject=CN = ecdsa'
}
each_way check
