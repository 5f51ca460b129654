/* A column: names one behind the other, as tables have them, sealed with nonces that the mill draws, and opened again. One
 * of them is null.
 *
 *     cc -std=c11 column.c $(pkg-config --cflags --libs ciphermill)
 */
#include <ciphermill.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4, IV_LEN = 12, TAG_LEN = 16 };

static void check(ciphermill_status status, const char *what)
{
    if (status == CIPHERMILL_OK)
        return;
    ciphermill_error error;
    ciphermill_last_error(&error);
    fprintf(stderr, "%s: %s: %s\n", what, ciphermill_status_text(status), error.text);
    exit(1);
}

static ciphermill_extents offsets(const int32_t *ends)
{
    ciphermill_extents extents = { .kind = CIPHERMILL_EXTENTS_OFFSETS_32, .offsets = ends };
    return extents;
}

int main(void)
{
    ciphermill_mill *mill;
    check(ciphermill_mill_open(&mill, NULL), "open");
    ciphermill_suite gcm;
    check(ciphermill_suite_by_name(&gcm, "aes-256-gcm"), "suite");
    ciphermill_key key;
    check(ciphermill_key_generate(mill, &key, NULL, NULL, gcm, NULL), "key");

    /* "ann", "bob", null, "christine"; what is sealed has a nonce before and a tag behind it. */
    const unsigned char names[] = "annbobchristine";
    const int32_t ends[COUNT + 1] = { 0, 3, 6, 6, 15 };
    const int32_t sealed_ends[COUNT + 1] = { 0, 31, 62, 62, 99 };
    unsigned char sealed[99], again[15] = { 0 };
    unsigned char statuses[COUNT] = { 0, 0, CIPHERMILL_COLUMN_LEFT_OUT, 0 };
    const unsigned char aad[] = "customers.name";

    ciphermill_columns columns = {
        .struct_len = sizeof columns, .suite = gcm, .direction = CIPHERMILL_ENCRYPT, .data = CIPHERMILL_DATA_SEPARATE,
        .statuses = statuses, .count = COUNT,
        .input = names, .input_len = 15, .inputs = offsets(ends),
        .output = sealed, .output_len = sizeof sealed, .outputs = offsets(sealed_ends),
        .keys = &key, .keys_len = 1,
        .iv_kind = CIPHERMILL_IVS_DRAWN, .iv_len = IV_LEN,
        .aad_kind = CIPHERMILL_AAD_ONE, .aad = aad, .aad_len = sizeof aad - 1,
        .tag_kind = CIPHERMILL_TAGS_AFTER, .tag_len = TAG_LEN,
    };
    ciphermill_report report;
    check(ciphermill_run_columns(mill, &report, &columns, NULL), "seal");
    printf("%llu values sealed\n", (unsigned long long)report.done);

    memset(statuses, CIPHERMILL_COLUMN_PENDING, COUNT);
    statuses[2] = CIPHERMILL_COLUMN_LEFT_OUT;
    columns.direction = CIPHERMILL_DECRYPT;
    columns.input = sealed;
    columns.input_len = sizeof sealed;
    columns.inputs = offsets(sealed_ends);
    columns.output = again;
    columns.output_len = sizeof again;
    columns.outputs = offsets(ends);
    columns.iv_kind = CIPHERMILL_IVS_INLINE;
    check(ciphermill_run_columns(mill, &report, &columns, NULL), "open");
    printf("%llu values opened: %.15s\n", (unsigned long long)report.done, (const char *)again);

    check(ciphermill_mill_close(mill), "close");
    return report.done != 3 || memcmp(again, names, 15) != 0;
}
