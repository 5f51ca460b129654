#!/usr/bin/env bash
# nginx with the provider and without: answers of 16 KB a second over connections that stay, with TLS 1.3 and AES-128-GCM.
# SECONDS_EACH (4) for each, ROUNDS (3) of both in turns. nginx has the first core, wrk with eight connections has the second.
program=measure-nginx
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
command -v nginx >/dev/null || lacks 'nginx (apt-get install nginx-light)'
command -v wrk >/dev/null || lacks 'wrk (apt-get install wrk)'
[ "$(nproc)" -ge 2 ] || lacks 'two cores'
prepare
seconds=${SECONDS_EACH:-4} rounds=${ROUNDS:-3}
make_authority
make_pair rsa rsa
mkdir "$scratch/root"
head -c 16384 /dev/urandom >"$scratch/root/content"
free_port

cat >"$scratch/nginx.conf" <<END
$(nginx_main 1 200)
worker_cpu_affinity 01;
http {
$(nginx_http)
    keepalive_requests 100000000;
    open_file_cache max=10;
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    ssl_certificate $scratch/rsa.crt; ssl_certificate_key $scratch/rsa.key;
    server { listen 127.0.0.1:$port ssl; root $scratch/root; }
}
END

# Answers a second, in `answers`.
measure() { # default|ciphermill
    use "$1"
    start nginx "${with[@]}" nginx -e "$scratch/nginx-errors.log" -c "$scratch/nginx.conf"
    await "$port"
    # What a process measures before it takes anything over is done in the first second.
    taskset -c 1 wrk -t 1 -c 8 -d 1 "https://127.0.0.1:$port/content" >"$scratch/wrk.log"
    taskset -c 1 wrk -t 1 -c 8 -d "$seconds" "https://127.0.0.1:$port/content" >"$scratch/wrk.log"
    stop QUIT
    expect 'all answers are right' test -z "$(grep 'Non-2xx\|Socket errors' "$scratch/wrk.log")"
    answers=$(sed -n 's/^Requests\/sec: *\([0-9]*\).*/\1/p' "$scratch/wrk.log")
}

printf '%-24s %12s %12s %8s\n' 'answers of 16 KB' 'default /s' 'ours /s' 'ratio'
for _ in $(seq "$rounds"); do
    # Not in a list with `&&`, where failures would be passed over.
    measure default
    before=$answers
    measure ciphermill
    printf '%-24s %12s %12s %8s\n' 'TLS 1.3, AES-128-GCM' "$before" "$answers" \
        "$(awk "BEGIN { printf \"%.2f\", $answers / $before }")"
done
