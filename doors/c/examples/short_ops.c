/* Short operations in a batch: 256 messages of 64 bytes, each with a key and an IV of its own, sealed and opened again.
 *
 *     cc -std=c11 short_ops.c $(pkg-config --cflags --libs ciphermill)
 */
#include <ciphermill.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 256, LEN = 64, TAG_LEN = 16, STRIDE = LEN + TAG_LEN };

static void check(ciphermill_status status, const char *what)
{
    if (status == CIPHERMILL_OK)
        return;
    ciphermill_error error;
    ciphermill_last_error(&error);
    fprintf(stderr, "%s: %s: %s\n", what, ciphermill_status_text(status), error.text);
    exit(1);
}

int main(void)
{
    check(ciphermill_check_version(CIPHERMILL_ABI_VERSION), "version");
    ciphermill_mill *mill;
    check(ciphermill_mill_open(&mill, NULL), "open");
    ciphermill_suite gcm;
    check(ciphermill_suite_by_name(&gcm, "aes-128-gcm"), "suite");

    /* Operations lie on lines of the cache; 64 times their number is a multiple of 64, as aligned_alloc wants. */
    ciphermill_op *ops = aligned_alloc(64, OPS * sizeof *ops);
    unsigned char *arena = malloc(OPS * STRIDE);
    if (ops == NULL || arena == NULL)
        return 1;
    memset(ops, 0, OPS * sizeof *ops);
    ciphermill_key keys[OPS];
    for (int i = 0; i < OPS; i++) {
        memset(arena + i * STRIDE, i, LEN);
        check(ciphermill_key_generate(mill, &keys[i], NULL, NULL, gcm, NULL), "key");
        ops[i].key = keys[i];
        ops[i].iv_len = 12;
        memcpy(ops[i].iv, &i, sizeof i); /* never twice under one key */
        ops[i].input = ops[i].output = (uint32_t)(i * STRIDE);
        ops[i].input_len = LEN;
        ops[i].tag = (uint32_t)(i * STRIDE + LEN);
        ops[i].tag_len = TAG_LEN;
    }

    ciphermill_batch batch = {
        .suite = gcm, .direction = CIPHERMILL_ENCRYPT, .ops = ops, .ops_len = OPS, .arena = arena,
        .arena_len = OPS * STRIDE,
    };
    ciphermill_report report;
    check(ciphermill_run(mill, &report, &batch, NULL), "seal");
    char engine[32];
    size_t engine_len = sizeof engine;
    check(ciphermill_engine_name(mill, engine, &engine_len, (size_t)report.engine), "engine");
    printf("%llu sealed by %s\n", (unsigned long long)report.done, engine);

    /* Back, with one message altered on the way. */
    arena[3 * STRIDE] ^= 1;
    for (int i = 0; i < OPS; i++)
        ops[i].status = CIPHERMILL_OP_PENDING;
    batch.direction = CIPHERMILL_DECRYPT;
    check(ciphermill_run(mill, &report, &batch, NULL), "open");
    printf("%llu opened, %llu failed\n", (unsigned long long)report.done, (unsigned long long)report.failed);
    int wrong = report.done != OPS - 1 || ops[3].status != CIPHERMILL_OP_AUTH_FAILED;
    for (int i = 0; i < OPS; i++) {
        for (int at = 0; at < LEN; at++)
            wrong |= arena[i * STRIDE + at] != (i == 3 ? 0 : (unsigned char)i);
        check(ciphermill_key_destroy(mill, keys[i]), "destroy");
    }

    free(arena);
    free(ops);
    check(ciphermill_mill_close(mill), "close");
    return wrong;
}
