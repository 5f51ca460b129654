# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what sources this sets one, and reads the others
# What the checks of programs share. Each file beside it sources this, with its program's name in `program`.
#
# A check runs its program without the provider and with it (`each_way`), in a scratch folder that is removed, as are the processes
# that it started, however it ends. What is wrong ends it with 1 and the logs; what the machine lacks, with 77.
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
built=${CARGO_TARGET_DIR:-target}/release
[ "${PROFILE:-release}" = release ] || built=${CARGO_TARGET_DIR:-target}/debug
load=$built/examples/handshakes
scratch=$(mktemp -d)
started=()

lacks() { # WHAT
    echo "$program: not run: $1" >&2
    note "$program: $1"
    exit 77
}

# What is listed once more where all has run (xtask/doors.sh).
note() { [ -z "${DOORS_SKIPPED:-}" ] || echo "$1" >>"$DOORS_SKIPPED"; }

# A part that is left out, though the machine has what it takes.
omitted() { # WHAT-AND-WHY
    note "$program${way:+, $way}: $1"
}

finish() {
    local group
    # A second Ctrl-C ends the sleep, not the rest.
    set +e
    for group in ${started[@]+"${started[@]}"}; do kill -TERM -- "-$group" 2>/dev/null || true; done
    [ ${#started[@]} = 0 ] || sleep 0.3
    for group in ${started[@]+"${started[@]}"}; do kill -KILL -- "-$group" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What a failure says goes here, wherever the errors of the command that failed went.
exec 9>&2

failed() { # LINE COMMAND
    local log
    trap - ERR
    exec 2>&9
    # What a part of a pipeline says is said once more by the whole.
    [ "$BASH_SUBSHELL" = 0 ] || exit 1
    echo "$program: failed${way:+, $way}: line $1: $2" >&2
    for log in "$scratch"/*.log; do
        [ ! -s "$log" ] || { echo "--- $(basename "$log")" && tail -n 40 "$log"; } >&2
    done
    exit 1
}
trap 'failed "$LINENO" "$BASH_COMMAND"' ERR

# Unpacks a source package of Debian into WORK/source: the VERSION, or without one the newest that can be had, since a mirror may list a
# version before it has it. It comes from the machine's package sources, asked for sources; the lists are our own, so that the machine's stay as
# they are.
debian_source() { # WORK PACKAGE [VERSION]
    local work=$1 package=$2 each apt
    mkdir -p "$work/lists/partial" "$work/sources"
    : >"$work/sources.list"
    [ ! -e /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/sources.list"
    for each in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$each" ] || ! grep -qiE 'debian-archive-keyring|debian\.org' "$each" ||
            sed 's/^Types:.*/Types: deb-src/' "$each" >"$work/sources/${each##*/}"
    done
    apt=(-o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/sources" -o "Dir::State::Lists=$work/lists"
        -o "APT::Sandbox::User=$(id -un)" -q)
    apt-get "${apt[@]}" update >"$scratch/apt.log" 2>&1 || return 1
    for each in ${3:-$(apt-cache "${apt[@]}" showsrc "$package" 2>/dev/null | sed -n 's/^Version: //p' | sort -Vr)}; do
        (cd "$work" && apt-get "${apt[@]}" source --download-only "$package=$each") >>"$scratch/apt.log" 2>&1 || continue
        rm -rf "$work/source"
        # apt-get has compared the checksums that the signed lists have.
        dpkg-source --no-check -x "$work/${package}_${each#*:}.dsc" "$work/source" >>"$scratch/apt.log" 2>&1 && return
    done
    return 1
}

# A condition with its words, for what no command says by itself.
expect() { # WORDS TEST...
    local words=$1
    shift
    "$@" || failed "${BASH_LINENO[0]}" "$words"
}

# Nothing that a check waits for may wait for ever.
limited() { timeout --foreground "${LIMIT_SECONDS:-60}" "$@"; }

# Servers give up their rights before they read these, so that a copy lies where everybody may read it.
prepare() {
    chmod 755 "$scratch"
    install -m 644 target/openssl/ciphermill.so "$scratch/ciphermill.so"
    sed "s|^module = .*|module = $scratch/ciphermill.so|" target/openssl/openssl.cnf >"$scratch/ciphermill.cnf"
    : >"$scratch/default.cnf"
    # What has no provider named for it has none, whatever the machine's own configuration says.
    export OPENSSL_CONF=$scratch/default.cnf
    unset CIPHERMILL_OPENSSL_COUNTS CIPHERMILL_OPENSSL_ENGINES CIPHERMILL_OPENSSL_PREFERS
}

# Sets `with`, the beginning of a command that runs in one of the two ways, and empties its counts.
use() { # default|ciphermill
    way=$1
    head -c 16 /dev/zero >"$scratch/counts"
    chmod 666 "$scratch/counts"
    with=(env "OPENSSL_CONF=$scratch/$way.cnf" "CIPHERMILL_OPENSSL_COUNTS=$scratch/counts")
    # Checks want as much as can be in the mill, measurements what users have.
    case $program in measure-*) ;; *) with+=(CIPHERMILL_OPENSSL_PREFERS=mill) ;; esac
}

operations() { od -An -t u8 -N 8 "$scratch/counts" | tr -d ' '; }

# The mill has done at least so many operations since `use` if it was to be asked, and none if not.
expect_operations() { # AT_LEAST
    local done_there
    done_there=$(operations)
    if [ "$way" = default ]; then
        expect "no operation without the provider, but $done_there were counted" [ "$done_there" = 0 ]
    else
        expect "at least $1 operations of the mill, but $done_there were counted" [ "$done_there" -ge "$1" ]
    fi
}

# `WAYS` names one of the two.
each_way() { # FUNCTION
    local each
    for each in ${WAYS:-default ciphermill}; do
        use "$each"
        "$1"
    done
}

ok() { # WHAT
    echo "$program, $way: $1 ok"
}

# Starts a server in a process group of its own, and leaves its number in `server`.
start() { # LOG COMMAND...
    local log=$scratch/$1.log
    shift
    setsid "$@" >>"$log" 2>&1 </dev/null 9>&- &
    server=$!
    started+=("$server")
}

is_gone() { ! kill -0 -- "$1" 2>/dev/null; }

until_true() { # SECONDS COMMAND...
    local tries=$(($1 * 20))
    shift
    while ! "$@"; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.05
    done
}

# Ends a server; it and all of its group have to be gone in time.
stop() { # SIGNAL
    kill -s "$1" "$server"
    expect "the server ends within 15 s of SIG$1" until_true 15 is_gone "-$server"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# A port that nobody listens on, in `port`.
free_port() {
    while port=$((20000 + RANDOM % 12000)) && listens "$port"; do :; done
}

await() { # PORT
    expect "the server listens on $1 within 10 s" until_true 10 listens "$1"
}

generate_key() { # NAME rsa|rsa4096|ecdsa|ed25519
    case $2 in
    rsa4096) openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:4096 -out "$scratch/$1.key" ;;
    rsa) openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$scratch/$1.key" ;;
    ecdsa) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$scratch/$1.key" ;;
    ed25519) openssl genpkey -algorithm ED25519 -out "$scratch/$1.key" ;;
    esac 2>>"$scratch/keys.txt"
}

# An authority, and certificates that it has signed: NAME.key, NAME.crt and both in NAME.pem.
make_authority() {
    generate_key authority ecdsa
    # Since 3.2 certificates are of version 3 without being asked, and then an authority has to say that it is one.
    openssl req -x509 -key "$scratch/authority.key" -subj /CN=authority -days 2 -addext basicConstraints=critical,CA:TRUE \
        -out "$scratch/authority.crt"
    printf 'subjectAltName = DNS:localhost, IP:127.0.0.1\n' >"$scratch/names"
}

make_pair() { # NAME KIND
    generate_key "$1" "$2"
    openssl req -new -key "$scratch/$1.key" -subj "/CN=$1" -out "$scratch/$1.csr"
    openssl x509 -req -in "$scratch/$1.csr" -CA "$scratch/authority.crt" -CAkey "$scratch/authority.key" -days 2 \
        -extfile "$scratch/names" -out "$scratch/$1.crt" 2>>"$scratch/keys.txt"
    cat "$scratch/$1.key" "$scratch/$1.crt" >"$scratch/$1.pem"
}

# Random bytes to be served, and their checksum in `checksum`.
make_content() { # MEGABYTES
    mkdir -p "$scratch/root"
    head -c "${1}000000" /dev/urandom >"$scratch/root/content"
    checksum=$(sha256sum <"$scratch/root/content")
}

# Fetches the content from a port and compares it.
fetch() { # PORT CURL-ARGUMENTS...
    local from=$1
    shift
    limited curl -sS --fail --cacert "$scratch/authority.crt" "$@" "https://localhost:$from/content" \
        -o "$scratch/fetched" 2>>"$scratch/client.log"
    expect "the content of port $from as it was sent" [ "$(sha256sum <"$scratch/fetched")" = "$checksum" ]
}

# Begins full handshakes of many clients; `load_ended` waits for them, and none may have failed.
load_begin() { # PORT CLIENTS SECONDS [PATH]
    "$load" "127.0.0.1:$1" "${@:2}" >"$scratch/load.log" 2>&1 &
    load_pid=$!
}

load_ended() {
    wait "$load_pid"
    grep -q ' 0 failed' "$scratch/load.log"
    handshakes=$(sed -n 's/ handshakes a second.*//p' "$scratch/load.log")
    expect "handshakes under load" [ "$handshakes" -gt 0 ]
}

# What configurations of nginx have in common: before `http`, and at its beginning.
nginx_main() { # WORKERS CONNECTIONS
    cat <<END
daemon off;
$([ "$(id -u)" != 0 ] || echo 'user nobody nogroup;')
worker_processes $1;
pid $scratch/nginx.pid;
events { worker_connections $2; }
END
}

nginx_http() {
    cat <<END
    access_log off;
    client_body_temp_path $scratch/t1; proxy_temp_path $scratch/t2; fastcgi_temp_path $scratch/t3;
    uwsgi_temp_path $scratch/t4; scgi_temp_path $scratch/t5;
END
}

# The same of Apache.
apache_main() {
    local modules=/usr/lib/apache2/modules
    cat <<END
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule ssl_module $modules/mod_ssl.so
ServerName localhost
ServerRoot $scratch
DefaultRuntimeDir $scratch
PidFile $scratch/apache.pid
Mutex file:$scratch
ErrorLog $scratch/apache-errors.log
DocumentRoot $scratch/root
SSLSessionCache none
$([ "$(id -u)" != 0 ] || printf 'User nobody\nGroup nogroup')
END
}
