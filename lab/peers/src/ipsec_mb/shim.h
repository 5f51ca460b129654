/* The surface between the Rust engine and Intel's multi-buffer library: flat structures and six functions.
 * The layouts are checked on both sides. */
#ifndef CIPHERMILL_IPSEC_MB_SHIM_H
#define CIPHERMILL_IPSEC_MB_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* What a batch does. */
enum cm_kind { CM_CIPHER, CM_GCM, CM_CCM, CM_CHACHA20_POLY1305, CM_HMAC, CM_SHA, CM_CMAC, CM_GMAC, CM_POLY1305, CM_CHAIN };
enum cm_cipher { CM_AES_ECB, CM_AES_CBC, CM_AES_CTR, CM_DES_CBC, CM_3DES_CBC };
enum cm_digest { CM_MD5, CM_SHA1, CM_SHA224, CM_SHA256, CM_SHA384, CM_SHA512 };

/* A suite and a direction. */
struct cm_program {
    uint8_t kind;
    uint8_t cipher;
    uint8_t digest;
    uint8_t digest_len;
    uint8_t cipher_key_len; /* bytes of the cipher's key as the library wants it */
    uint8_t decrypt;
};

/* What became of an operation. */
enum cm_status { CM_PENDING, CM_DONE, CM_AUTH_FAILED, CM_FAULT, CM_ODD, CM_SKIPPED };

/* The contract's operation: 64 bytes, fixed layout. */
struct cm_op {
    uint32_t key[2];
    uint8_t iv[16];
    uint32_t input;
    uint32_t input_len;
    uint32_t output;
    uint32_t tag;
    uint8_t aad[6]; /* offset, four bytes, and length, two bytes, at no alignment */
    uint8_t status[2];
    uint64_t cookie;
    uint32_t output_len;
    uint16_t tag_len;
    uint8_t iv_len;
    uint8_t reserved;
};

struct cm_queue;
struct cm_key;

/* Opens a manager for the best instruction set. On failure NULL, with the library's error number in `error`. */
struct cm_queue *cm_queue_open(int *error);
void cm_queue_close(struct cm_queue *queue);

/* The instruction set that the manager chose. */
const char *cm_arch_name(const struct cm_queue *queue);
const char *cm_version(void);
const char *cm_error_text(int error);

/* Expands a key. `mac_key` is the HMAC key padded with zeros to the digest's block. NULL without memory. */
struct cm_key *cm_key_new(struct cm_queue *queue, const struct cm_program *program, const uint8_t *cipher_key,
                          const uint8_t *mac_key);
/* Wipes a key and frees it. */
void cm_key_free(struct cm_key *key);

/* Operations that one call of cm_run takes: few enough that they stay in the first-level cache from the first look at
 * them to the last, and as many as the library's queue takes before it must be drained. */
#define CM_WINDOW_MAX 255
/* For what the synchronous bursts run: one burst. */
#define CM_WINDOW_SYNCHRONOUS 128

/* How many operations a call should get: one of the two numbers above. */
size_t cm_window(const struct cm_program *program);

/* Runs those of `count` operations whose status is CM_PENDING, each under its key, and sets their status. Offsets count
 * from `arena`. */
void cm_run(struct cm_queue *queue, const struct cm_program *program, uint8_t *arena, const struct cm_op *ops,
            const struct cm_key *const *keys, uint8_t *status, size_t count);

#endif
