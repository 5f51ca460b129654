# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what sources this reads some, and common.sh has made others
# A PKCS#11 module with a fresh token, for programs that speak PKCS#11. Sourced by the checks of such programs.
#
# Each check runs with SoftHSM, as the measure, and with our module: the same commands have to come to the same end. `MODULES` names one
# of the two; `SOFTHSM` and `CIPHERMILL_MODULE` say where they lie.
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ours=${CIPHERMILL_MODULE:-$PWD/target/pkcs11/libciphermill-pkcs11.so}
theirs=${SOFTHSM:-}
for each in /usr/lib/softhsm/libsofthsm2.so /usr/lib/*/softhsm/libsofthsm2.so; do
    [ -n "$theirs" ] || [ ! -e "$each" ] || theirs=$each
done
modules=${MODULES:-softhsm ciphermill}
pin=246810 so_pin=13579753
case $modules in *ciphermill*) [ -e "$ours" ] || lacks 'the module (make pkcs11)' ;; esac
case $modules in *softhsm*) [ -n "$theirs" ] || lacks 'SoftHSM, the measure (apt-get install softhsm2)' ;; esac
command -v xxd >/dev/null || lacks 'xxd (apt-get install xxd)'
command -v pkcs11-tool >/dev/null || lacks 'pkcs11-tool, which makes tokens (apt-get install opensc)'
# What the machine has configured is not what is tried.
unset CIPHERMILL_PKCS11_CONF CIPHERMILL_PKCS11_KEYSTORES SOFTHSM2_CONF
export OPENSSL_CONF=$scratch/default.cnf
: >"$scratch/default.cnf"

# In the place of common.sh's: here is no provider, and servers run with what is exported.
prepare() {
    chmod 755 "$scratch"
    with=(env)
}

# One of the two modules with an empty token: sets `way`, `module`, `folder` and `token`, the beginning of RFC 7512 URIs.
use_module() { # softhsm|ciphermill
    way=$1 folder=$scratch/$1
    rm -rf "$folder"
    mkdir -p "$folder/tokens"
    module=$theirs
    [ "$way" = softhsm ] || module=$ours
    export SOFTHSM2_CONF=$folder/softhsm.conf CIPHERMILL_PKCS11_CONF=$folder/pkcs11.toml
    printf 'directories.tokendir = %s/tokens\nlog.level = ERROR\n' "$folder" >"$SOFTHSM2_CONF"
    printf 'keystores = ["%s/tokens/token.keystore"]\n' "$folder" >"$CIPHERMILL_PKCS11_CONF"
    tool --init-token --slot-index 0 --label mill --so-pin "$so_pin"
    tool --token-label mill --login --login-type so --so-pin "$so_pin" --init-pin --new-pin "$pin"
    token=pkcs11:token=mill
}

# pkcs11-tool with the module, whose words go into a log.
tool() { limited pkcs11-tool --module "$module" "$@" >>"$scratch/pkcs11-tool.log" 2>&1; }

# The same with the token and its user.
as_user() { tool --token-label mill --login --pin "$pin" "$@"; }

each_module() { # FUNCTION
    local each
    for each in $modules; do
        use_module "$each"
        "$1"
    done
}

# A key of OpenSSL's with its certificate, as make_pair makes them, into the token: private and public key and certificate.
import_pair() { # NAME ID
    openssl pkcs8 -topk8 -nocrypt -in "$scratch/$1.key" -outform DER -out "$scratch/$1.key.der"
    openssl pkey -in "$scratch/$1.key" -pubout -outform DER -out "$scratch/$1.pub.der"
    openssl x509 -in "$scratch/$1.crt" -outform DER -out "$scratch/$1.crt.der"
    as_user --write-object "$scratch/$1.key.der" --type privkey --id "$2" --label "$1" --usage-sign --usage-decrypt
    as_user --write-object "$scratch/$1.pub.der" --type pubkey --id "$2" --label "$1"
    as_user --write-object "$scratch/$1.crt.der" --type cert --id "$2" --label "$1"
}

# A key that the token makes; its public half as NAME.pub, in PEM, for OpenSSL.
generate_pair() { # NAME TYPE ID
    as_user --keypairgen --key-type "$2" --id "$3" --label "$1"
    case $2 in
    rsa:*)
        as_user --read-object --type pubkey --id "$3" --output-file "$scratch/$1.pub.der"
        ;;
    *)
        # It lists all of them, whatever it is asked.
        limited pkcs11-tool --module "$module" --token-label mill --login --pin "$pin" --list-objects --type pubkey >"$scratch/listed.log" 2>&1
        # shellcheck disable=SC2046 # two words
        point_key $(awk -v id="$3" '/EC_POINT:/ { point = $2 } /EC_PARAMS:/ { params = $2 } /ID:/ && $2 == id { print point, params }' \
            "$scratch/listed.log") | xxd -r -p >"$scratch/$1.pub.der"
        ;;
    esac
    openssl pkey -pubin -inform DER -in "$scratch/$1.pub.der" -out "$scratch/$1.pub"
}

# SubjectPublicKeyInfo (RFC 5480, section 2; RFC 8410, section 4) around a point, which pkcs11-tool 0.23 shows of all curves and makes
# a file of for P-256 alone. All lengths are below 128.
point_key() { # EC_POINT EC_PARAMS
    local point=$1 algorithm=06072a8648ce3d0201$2 text
    # As an octet string, or, as 3.0 has it for Edwards curves, without.
    case ${#point}:$point in 134:0441*) ;& 198:0461*) ;& 68:0420*) point=${point:4} ;; esac
    [ ${#point} != 64 ] || algorithm=06032b6570
    text=30$(hex_len "$algorithm")${algorithm}03$(hex_len "00$point")00$point
    printf '30%s%s' "$(hex_len "$text")" "$text"
}

hex_len() { printf '%02x' $((${#1} / 2)); }
