# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what sources this has made `source`, and common.sh the rest
# OpenSSL's own evp_test and sslapitest, which have been built in `source`, with the provider and without: no errors, and no more
# skipped than without.

# `legacy` beside the others, as OpenSSL's own configuration of these tests has it.
for each in default ciphermill; do
    [ "$each" = ciphermill ] || printf 'openssl_conf = init\n[init]\nproviders = providers\n[providers]\ndefault = on\n[on]\nactivate = 1\n' \
        >"$scratch/default.cnf"
    printf '\n[providers]\nlegacy = legacy_on\n[legacy_on]\nactivate = 1\n' | cat "$scratch/$each.cnf" - >"$scratch/$each-legacy.cnf"
done
export LD_LIBRARY_PATH=$source OPENSSL_MODULES=$source/providers OPENSSL_ENGINES=$source/engines OPENSSL_CONF=/dev/null
declare -A skipped tests

evp() {
    local file completed count=0 skips=0
    for file in "$source"/test/recipes/30-test_evp_data/*.txt; do
        "${with[@]}" OPENSSL_CONF=/dev/null "$source/test/evp_test" -config "$scratch/$way-legacy.cnf" "$file" >"$scratch/evp.log" 2>&1
        completed=$(grep -ao 'Completed [0-9]* tests with 0 errors and [0-9]* skipped' "$scratch/evp.log")
        while read -r _ number _ _ _ _ _ skip _; do count=$((count + number)) skips=$((skips + skip)); done <<<"$completed"
    done
    tests[$way]=$count skipped[$way]=$skips
    expect 'thousands of tests' [ "$count" -gt 5000 ]
    expect "as many tests as without, ${tests[default]}, but $count ran" [ "$count" = "${tests[default]}" ]
    expect "no more skipped than without, ${skipped[default]}, but $skips were" [ "$skips" -le "${skipped[default]}" ]
    expect_operations 50
    ok "evp_test, $count tests, 0 errors, $skips skipped"
}

api() {
    local data=$source/test/recipes/90-test_sslapi_data
    # It leaves files where it runs.
    (cd "$scratch" && "${with[@]}" OPENSSL_CONF=/dev/null "$source/test/sslapitest" "$source/test/certs" "$data/passwd.txt" \
        "$scratch/written" default "$scratch/$way-legacy.cnf" "$data/dhparams.pem" "$data" >"$scratch/sslapi.log" 2>&1)
    skips=$(grep -ic '# skip' "$scratch/sslapi.log" || true)
    passed=$(grep -c '^ *ok' "$scratch/sslapi.log")
    skipped[api-$way]=$skips tests[api-$way]=$passed
    expect "as many passed as without, ${tests[api-default]}, but $passed did" [ "$passed" = "${tests[api-default]}" ]
    expect "no more skipped than without, ${skipped[api-default]}, but $skips were" [ "$skips" -le "${skipped[api-default]}" ]
    ok "sslapitest, $passed passed, $skips skipped"
}

own_tests() {
    evp
    use "$way"
    api
}
