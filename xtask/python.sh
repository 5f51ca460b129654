#!/usr/bin/env bash
# The Python package: `test` runs its tests against the build that the other tests have made, `spark` those in Spark, and `wheel`
# builds the wheel for release.
# Exit 77 says that this machine lacks something, and what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=doors/python
work=$PWD/target/python
mkdir -p "$work"

lacks() { echo "not run: $1" >&2; exit 77; }
# shellcheck source=xtask/python-environment.sh
. xtask/python-environment.sh
needs_python 3.9


# The package as a folder: what is written in Python, and the library of a build.
assemble() {
    rm -rf "$work/site"
    mkdir -p "$work/site"
    cp -r "$here/python/ciphermill" "$work/site/"
    cp "$1" "$work/site/ciphermill/_native.abi3.so"
}

# The package and the command line, whose files are tried as well. The same selection as `cargo test --workspace` makes: features of
# dependencies follow from what is selected, and with others the engines would be compiled again, which takes minutes.
build() {
    cargo build --locked --workspace --lib --bins --tests
    assemble target/debug/lib_native.so
    export CIPHERMILL=$PWD/target/debug/ciphermill
}

case ${1:-} in
test)
    shift
    environment "$here/test.txt" "$work/test"
    build
    cd "$here"
    PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 exec "$work/test/bin/python" -m pytest -q -p no:cacheprovider "$@"
    ;;
spark)
    shift
    command -v java >/dev/null 2>&1 || lacks 'Spark wants a Java runtime (apt-get install default-jre-headless)'
    environment "$here/spark.txt" "$work/spark"
    build
    cd "$here"
    PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 exec "$work/spark/bin/python" -m pytest -q -p no:cacheprovider tests_spark "$@"
    ;;
wheel)
    environment "$here/wheel.txt" "$work/wheel"
    # The profile for release; the newest glibc symbol that is used decides where the wheel runs.
    "$work/wheel/bin/maturin" build --release --locked --manifest-path "$here/Cargo.toml" --out target/wheels
    ;;
*)
    echo "usage: $0 test|spark [pytest's options] | wheel" >&2
    exit 2
    ;;
esac
