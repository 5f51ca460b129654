#!/usr/bin/env bash
# Tables of many writers, protected, read by many programs, restored and compared: see xtask/real-tables/check.py.
# Exit 77 says that this machine lacks something, and what. ONLY=NAME tries the samples whose names contain NAME. With `rates`,
# tables of TPC-H customers are timed instead (xtask/real-tables/rates.py; SCALE, ROUNDS), in the folder RATES.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=xtask/real-tables
work=$PWD/target/real-tables
mkdir -p "$work"

lacks() { echo "not run: $1" >&2; exit 77; }
# shellcheck source=xtask/python-environment.sh
. xtask/python-environment.sh
needs_python 3.11

environment "$here/pandas-2.txt" "$work/pandas-2"
pandas2=$work/pandas-2/bin/python
if [ "${1:-}" = rates ]; then
    cargo build --release --locked -p ciphermill-cli
    tool=$PWD/target/release/ciphermill
    rates=${RATES:-$work/rates}
    mkdir -p -m 700 "$rates"
    : >"$rates/ciphermill.toml"
    export CIPHERMILL_KEYSTORE=$rates/keys CIPHERMILL_CONFIG=$rates/ciphermill.toml
    [ -e "$rates/key" ] || (umask 077 && head -c 32 /dev/urandom >"$rates/key")
    [ -e "$rates/keys" ] || "$tool" keys generate data --master-key-file "$rates/key"
    exec "$pandas2" "$here/rates.py" "$tool" "$rates" "${SCALE:-16}" "${ROUNDS:-5}"
fi
environment "$here/pandas-3.txt" "$work/pandas-3"
pandas3=$work/pandas-3/bin/python
programs=("pyarrow=$pandas2" "pandas-2=$pandas2" "pandas-3=$pandas3" "polars=$pandas2" "duckdb=$pandas2" "fastparquet=$pandas2")
if command -v java >/dev/null 2>&1; then
    environment "$here/spark.txt" "$work/spark"
    spark=$work/spark/bin/python
    export PYSPARK_PYTHON=$spark
    programs+=("spark=$spark")
fi

# Beside the samples that are committed: files of each type for itself.
make=doors/table/tests/real/make.py
if ! cmp -s "$make" "$work/made/make.py" || [ ! -e "$work/made/${spark:+spark-}done" ]; then
    rm -rf "$work/made"
    "$pandas2" "$make" --each "$work/made" pyarrow pandas polars duckdb fastparquet
    "$pandas3" "$make" --each "$work/made" pandas
    [ -z "${spark:-}" ] || "$spark" "$make" --each "$work/made" spark >"$work/spark.log" 2>&1
    cp "$make" "$work/made/"
    touch "$work/made/${spark:+spark-}done"
fi

if [ -z "${CIPHERMILL:-}" ]; then
    cargo build --locked -p ciphermill-cli
    CIPHERMILL=$PWD/target/debug/ciphermill
fi
rm -rf "$work/run"
mkdir -m 700 "$work/run"
# A keystore of its own, and no settings of the user's.
: >"$work/run/ciphermill.toml"
export CIPHERMILL_KEYSTORE=$work/run/keys CIPHERMILL_CONFIG=$work/run/ciphermill.toml
# With a passphrase, most of the time would go into its derivation.
(umask 077 && head -c 32 /dev/urandom >"$work/run/key")
export RUST_BACKTRACE=0
"$CIPHERMILL" keys generate data --master-key-file "$work/run/key"
"$pandas2" "$here/check.py" "$CIPHERMILL" "$work/run" doors/table/tests/real/samples "$work/made" -- "${programs[@]}"
[ -n "${spark:-}" ] || lacks 'Spark wants a Java runtime (apt-get install default-jre-headless); everything else passed'
