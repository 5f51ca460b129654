#!/bin/sh
# Finds out what this machine lacks for building Ciphermill, and installs it on Debian and its relatives.
#
# Each need is tried, not looked up by package name, so that a library built by hand counts as well and a machine that
# has everything needs neither apt nor root. Called by the Makefile before anything is built; with the argument `lab` it
# also gets the libraries that the lab measures beside ours, with `tests` moreover what only some tests need, with
# `real-tables` or `spark` a Java runtime instead, where that can be had, with `doors` the servers and clients that the provider for
# OpenSSL and the PKCS#11 module are tried with, with `gateway` those of the ESP gateway.
set -eu

asked=${1:-}

rust_minimum=95 # of 1.x, as rust-toolchain.toml and rust-version in Cargo.toml ask

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compiles() {
    # $1: headers to include, the rest: flags. Links, so that the libraries must be there as well.
    headers=$1
    shift
    : >"$scratch/try.c"
    for header in $headers; do
        echo "#include <$header>" >>"$scratch/try.c"
    done
    echo 'int main(void) { return 0; }' >>"$scratch/try.c"
    cc "$scratch/try.c" -o "$scratch/try" "$@" >/dev/null 2>&1
}

missing=""
missing_words=""
need() {
    missing="$missing $1"
    missing_words="$missing_words
  - $2"
}

if ! command -v cc >/dev/null 2>&1 || ! compiles "stdio.h"; then
    need "gcc libc6-dev" "a C compiler with the C library's headers (cc)"
    no_compiler=1
fi
if [ -n "$asked" ] && ! command -v pkg-config >/dev/null 2>&1; then
    need "pkg-config" "pkg-config"
fi
# The provider is tested with OpenSSL's own program, and its library looked at.
if [ "$asked" = tests ] || [ "$asked" = doors ]; then
    command -v openssl >/dev/null 2>&1 || need "openssl" "OpenSSL's program"
    command -v readelf >/dev/null 2>&1 || need "binutils" "readelf and nm"
fi
# Tokens are tested with a software one, which keeps its store where the test says.
if [ "$asked" = tests ]; then
    command -v softhsm2-util >/dev/null 2>&1 || need "softhsm2" "SoftHSM"
fi
if ! command -v git >/dev/null 2>&1; then
    need "git" "git"
fi
if [ -z "$asked" ]; then
    : # Only the lab links to other libraries.
elif [ -n "${no_compiler:-}" ]; then
    # Without a compiler nothing can be tried; apt leaves alone what is there already.
    need "libssl-dev" "OpenSSL 3 with its headers"
elif ! compiles "openssl/evp.h" -lcrypto || ! pkg-config --exists openssl 2>/dev/null; then
    need "libssl-dev" "OpenSSL 3 with its headers"
fi
if [ -n "$asked" ] && [ "$(uname -m)" = x86_64 ]; then
    if [ -n "${no_compiler:-}" ] || ! compiles "intel-ipsec-mb.h" -lIPSec_MB; then
        need "libipsec-mb-dev" "Intel's multi-buffer library for IPsec, 1.3 or later, with its headers"
    fi
fi
if [ ! -e /etc/ssl/certs/ca-certificates.crt ] && [ ! -e /etc/ssl/cert.pem ] &&
    [ ! -e /etc/pki/tls/certs/ca-bundle.crt ]; then
    need "ca-certificates" "root certificates, with which cargo downloads crates"
fi

# How commands are run as root; empty where there is no way.
if [ "$(id -u)" = 0 ]; then
    as_root="env"
elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo env"
else
    as_root=""
fi

install_packages() {
    $as_root apt-get update -q &&
        $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # the list is meant to fall apart into words
    set -- $missing
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: this machine lacks:$missing_words" >&2
        echo "setup: it has no apt-get, so install these with its own package manager and try again" >&2
        echo "setup: (on Debian they are: $*)" >&2
        exit 1
    fi
    if [ -z "$as_root" ]; then
        echo "setup: this machine lacks:$missing_words" >&2
        echo "setup: installing them needs root, and there is no sudo. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
        exit 1
    fi
    echo "setup: installing $*"
    if ! install_packages "$@"; then
        echo "setup: installing failed. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
        exit 1
    fi
fi

# What only some tests need: installed where there is a way, else those tests say that they were not run.
optional() {
    what=$1 without=$2
    shift 2
    if ! command -v apt-get >/dev/null 2>&1 || [ -z "$as_root" ]; then
        echo "setup: there is no $what and no way to install it: $without (install $*)" >&2
    else
        echo "setup: installing $what, for tests"
        install_packages "$@" || echo "setup: installing $what failed: $without (install $*)" >&2
    fi
}

# Servers are installed to be started by tests, on ports of their own: Debian's packages would start them at once and with the
# machine, which is not for us to decide.
optional_server() {
    service=$1 what=$2
    shift 2
    policy=/usr/sbin/policy-rc.d own_policy=
    if [ -n "$as_root" ] && [ ! -e $policy ]; then
        own_policy=yes
        # Left behind, it would keep every package from starting its service from then on.
        trap '$as_root rm -f $policy; rm -rf "$scratch"; exit 130' INT TERM HUP
        printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null && $as_root chmod 755 $policy
    fi
    optional "$what" "the provider will not be tried with it" "$@"
    if [ -n "$own_policy" ]; then
        $as_root rm -f $policy
        trap - INT TERM HUP
    fi
    if [ -n "$as_root" ] && command -v systemctl >/dev/null 2>&1 && systemctl -q is-enabled "$service" 2>/dev/null; then
        $as_root systemctl -q disable "$service" || echo "setup: $service may start with the machine" >&2
    fi
}

has_softhsm() {
    ls /usr/lib/softhsm/libsofthsm2.so /usr/lib/*/softhsm/libsofthsm2.so 2>/dev/null | grep -q .
}

has_venv() {
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1
}

has_postgres() {
    # Debian keeps the server out of the search path, a folder a version.
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

if [ "$asked" = tests ] || [ "$asked" = gateway ]; then
    PATH=$PATH:/usr/sbin:/sbin
    { command -v ip && command -v tc; } >/dev/null 2>&1 || optional iproute2 "nothing will be tried in namespaces" iproute2
fi

if [ "$asked" = gateway ]; then
    has_venv || optional "Python's venv" "packets will not be compared with scapy's" python3-venv
    { command -v charon-systemd && command -v swanctl; } >/dev/null 2>&1 ||
        optional_server strongswan strongSwan charon-systemd strongswan-swanctl strongswan-libcharon \
            libstrongswan-standard-plugins libstrongswan-extra-plugins libcharon-extra-plugins
    command -v tracepath >/dev/null 2>&1 || optional tracepath "hosts will not be pinged through the gateway" iputils-tracepath
    command -v tcpdump >/dev/null 2>&1 || optional tcpdump "hosts will not be pinged through the gateway" tcpdump
    command -v ping >/dev/null 2>&1 || optional ping "hosts will not be pinged through the gateway" iputils-ping
    command -v curl >/dev/null 2>&1 || optional curl "metrics will not be read" curl
fi

if [ "$asked" = doors ]; then
    PATH=$PATH:/usr/sbin:/sbin
    command -v haproxy >/dev/null 2>&1 || optional_server haproxy HAProxy haproxy
    command -v nginx >/dev/null 2>&1 || optional_server nginx nginx nginx
    has_postgres || optional_server postgresql PostgreSQL postgresql
    command -v sshd >/dev/null 2>&1 || optional_server ssh "OpenSSH server" openssh-server openssh-client
    # The program without the service.
    command -v apache2 >/dev/null 2>&1 || optional Apache "the provider will not be tried with it" apache2-bin
    command -v curl >/dev/null 2>&1 || optional curl "nginx, Apache and curl will not be tried" curl
    command -v psql >/dev/null 2>&1 || optional psql "PostgreSQL will not be tried" postgresql-client
    command -v wrk >/dev/null 2>&1 || optional wrk "nginx's answers will not be counted" wrk
    command -v pgrep >/dev/null 2>&1 || optional pgrep "reloads of nginx will not be tried" procps
    # The programs of PKCS#11, and the token that is their measure.
    command -v pkcs11-tool >/dev/null 2>&1 || optional OpenSC "the PKCS#11 module will not be tried" opensc
    has_softhsm || optional SoftHSM "the PKCS#11 module will not be compared" softhsm2
    command -v xxd >/dev/null 2>&1 || optional xxd "the PKCS#11 module will not be tried" xxd
    command -v p11-kit >/dev/null 2>&1 || optional p11-kit "p11-kit and GnuTLS will not be tried" p11-kit
    command -v p11tool >/dev/null 2>&1 || optional GnuTLS "p11-kit and GnuTLS will not be tried" gnutls-bin
    command -v modutil >/dev/null 2>&1 || optional NSS "NSS will not be tried" libnss3-tools
    ls /usr/lib/*/engines-3/pkcs11.so >/dev/null 2>&1 || optional libp11 "OpenSSL's engine of PKCS#11 will not be tried" libengine-pkcs11-openssl
    command -v javac >/dev/null 2>&1 || optional JDK "SunPKCS11 will not be tried" default-jdk-headless
    has_venv || optional "Python with its venv" "python-pkcs11 will not be tried" python3-venv
fi

has_browser() {
    # The names that lab/report/tests/chromium.rs tries.
    for browser in "${CIPHERMILL_CHROMIUM:-chromium}" chromium chromium-browser google-chrome-stable google-chrome; do
        if command -v "$browser" >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

has_pocl() {
    # OpenCL finds its devices' libraries in this folder; PoCL is the one that runs kernels on the processor.
    ls /etc/OpenCL/vendors/pocl*.icd >/dev/null 2>&1
}

if [ "$asked" = tests ]; then
    if command -v rustup >/dev/null 2>&1; then
        rustup -q target add aarch64-unknown-linux-gnu >/dev/null 2>&1 ||
            echo "setup: there is no aarch64-unknown-linux-gnu for this toolchain: it will not be type-checked" >&2
    fi
    has_browser || optional Chromium "the test of the lab's reports in a browser will not run" chromium
    has_pocl || optional PoCL "the GPU engine's kernels will not be tested" pocl-opencl-icd ocl-icd-libopencl1
fi

if [ "$asked" = tests ] || [ "$asked" = spark ]; then
    has_venv || optional "Python with its venv" "the Python package will not be tested" python3-venv
fi

if [ "$asked" = real-tables ] || [ "$asked" = spark ]; then
    command -v java >/dev/null 2>&1 || optional "Java runtime" "nothing will be tested with Spark" default-jre-headless
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: there is no cargo. Install a Rust toolchain, for example by" >&2
    echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    echo "setup: and open a new shell; rustup then fetches the version that rust-toolchain.toml names" >&2
    exit 1
fi
# With rustup this call also fetches the toolchain that the repository names.
version=$(cargo --version)
minor=$(echo "$version" | sed -n 's/^cargo 1\.\([0-9][0-9]*\)\..*/\1/p')
if [ -z "$minor" ] || [ "$minor" -lt "$rust_minimum" ]; then
    echo "setup: found $version, but Rust 1.$rust_minimum or later is needed; with rustup: rustup update" >&2
    exit 1
fi
