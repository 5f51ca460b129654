#!/usr/bin/env bash
# built-test.sh NAME [ARGUMENTS]: runs the test targets of this name, of every package that has one, as `make test` builds them.
# `cargo test --test NAME` links procedural macros in another way when so little is selected, and compiles the kernels anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=$1
shift
targets=$(cargo test --locked --workspace --no-run --message-format json-render-diagnostics |
    sed -n 's/^.*"manifest_path":"\([^"]*\)\/Cargo\.toml".*"kind":\["test"\].*"name":"'"$name"'".*"executable":"\([^"]*\)".*$/\1\t\2/p')
[ -n "$targets" ] || { echo "no test target is called $name" >&2; exit 1; }
failed=
while IFS=$'\t' read -r package target; do
    echo "== ${package#"$PWD"/}: $name"
    (cd "$package" && CARGO_MANIFEST_DIR=$package "$target" "$@" </dev/null) || failed="$failed ${package#"$PWD"/}"
done <<<"$targets"
[ -z "$failed" ] || { echo "$name failed in$failed" >&2; exit 1; }
