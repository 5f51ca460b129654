/* The layout of what C programs and the library share, as C sees it; `src` says the same of Rust's side. */
#include <ciphermill.h>

#include <stddef.h>

#ifdef __cplusplus
#define ASSERT(what) static_assert(what, #what)
#else
#define ASSERT(what) _Static_assert(what, #what)
#endif
#define AT(type, field, offset) ASSERT(offsetof(type, field) == (offset))

ASSERT(sizeof(void *) == 8);
ASSERT(sizeof(ciphermill_status) == 4);
ASSERT(sizeof(ciphermill_suite) == 8);
ASSERT(sizeof(ciphermill_direction) == 4);
ASSERT(sizeof(ciphermill_key) == 8);
AT(ciphermill_key, slot, 0);
AT(ciphermill_key, generation, 4);

ASSERT(sizeof(ciphermill_op) == 64);
#ifdef __cplusplus
ASSERT(alignof(ciphermill_op) == 64);
#else
ASSERT(_Alignof(ciphermill_op) == 64);
#endif
AT(ciphermill_op, key, 0);
AT(ciphermill_op, iv, 8);
AT(ciphermill_op, input, 24);
AT(ciphermill_op, input_len, 28);
AT(ciphermill_op, output, 32);
AT(ciphermill_op, tag, 36);
AT(ciphermill_op, aad, 40);
AT(ciphermill_op, aad_len, 44);
AT(ciphermill_op, status, 46);
AT(ciphermill_op, reason, 47);
AT(ciphermill_op, cookie, 48);
AT(ciphermill_op, output_len, 56);
AT(ciphermill_op, tag_len, 60);
AT(ciphermill_op, iv_len, 62);
AT(ciphermill_op, reserved, 63);

ASSERT(sizeof(ciphermill_batch) == 48);
AT(ciphermill_batch, ops, 8);
AT(ciphermill_batch, arena, 24);
AT(ciphermill_batch, direction, 40);
ASSERT(sizeof(ciphermill_report) == 32);
ASSERT(sizeof(ciphermill_message) == 80);
ASSERT(sizeof(ciphermill_extents) == 32);
ASSERT(sizeof(ciphermill_columns) == 248);
AT(ciphermill_columns, statuses, 24);
AT(ciphermill_columns, inputs, 56);
AT(ciphermill_columns, outputs, 104);
AT(ciphermill_columns, aads, 192);
AT(ciphermill_columns, tag_kind, 240);
ASSERT(sizeof(ciphermill_completed) == 56);
AT(ciphermill_completed, status, 48);
AT(ciphermill_completed, reason, 52);
ASSERT(sizeof(ciphermill_error) == 24);
AT(ciphermill_error, reason, 4);
AT(ciphermill_error, op, 8);
AT(ciphermill_error, text, 16);
ASSERT(sizeof(ciphermill_options) == 32);
ASSERT(sizeof(ciphermill_run_options) == 32);
ASSERT(sizeof(ciphermill_key_policy) == 48);
ASSERT(sizeof(ciphermill_suite_info) == 208);

int main(void)
{
    return ciphermill_check_version(CIPHERMILL_ABI_VERSION);
}
