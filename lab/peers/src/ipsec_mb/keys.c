/* Managers, and keys in the form that the library wants: schedules, hash powers, digest states. */
#define _POSIX_C_SOURCE 200112L
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t section(size_t *size, size_t len)
{
    size_t start = *size;
    *size = (start + len + 63) & ~(size_t)63;
    return start;
}

static void expand_aes(IMB_MGR *manager, size_t key_len, const uint8_t *key, void *enc, void *dec)
{
    if (key_len == 16)
        IMB_AES_KEYEXP_128(manager, key, enc, dec);
    else if (key_len == 24)
        IMB_AES_KEYEXP_192(manager, key, enc, dec);
    else
        IMB_AES_KEYEXP_256(manager, key, enc, dec);
}

static void expand_gcm(IMB_MGR *manager, size_t key_len, const uint8_t *key, struct gcm_key_data *data)
{
    if (key_len == 16)
        IMB_AES128_GCM_PRE(manager, key, data);
    else if (key_len == 24)
        IMB_AES192_GCM_PRE(manager, key, data);
    else
        IMB_AES256_GCM_PRE(manager, key, data);
}

/* The digest's state after one block of the key, masked (RFC 2104, section 4). */
static void hmac_half(IMB_MGR *manager, uint8_t digest, const uint8_t *mac_key, uint8_t mask, uint8_t *state)
{
    uint8_t block[IMB_SHA_512_BLOCK_SIZE];
    size_t len = digest >= CM_SHA384 ? IMB_SHA_512_BLOCK_SIZE : IMB_SHA1_BLOCK_SIZE;
    for (size_t i = 0; i < len; i++)
        block[i] = mac_key[i] ^ mask;
    switch (digest) {
    case CM_MD5:
        IMB_MD5_ONE_BLOCK(manager, block, state);
        break;
    case CM_SHA1:
        IMB_SHA1_ONE_BLOCK(manager, block, state);
        break;
    case CM_SHA224:
        IMB_SHA224_ONE_BLOCK(manager, block, state);
        break;
    case CM_SHA256:
        IMB_SHA256_ONE_BLOCK(manager, block, state);
        break;
    case CM_SHA384:
        IMB_SHA384_ONE_BLOCK(manager, block, state);
        break;
    default:
        IMB_SHA512_ONE_BLOCK(manager, block, state);
    }
    imb_clear_mem(block, sizeof(block));
}

static void expand_des(struct cm_key *key, uint8_t *schedules, size_t count, const uint8_t *cipher_key)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *schedule = schedules + i * IMB_DES_KEY_SCHED_SIZE;
        des_key_schedule((uint64_t *)schedule, cipher_key + i * IMB_DES_BLOCK_SIZE);
        key->des[i] = schedule;
    }
    key->enc = key->dec = count == 1 ? (const void *)schedules : (const void *)key->des;
}

static int is_des(const struct cm_program *program)
{
    return program->cipher == CM_DES_CBC || program->cipher == CM_3DES_CBC;
}

struct cm_key *cm_key_new(struct cm_queue *queue, const struct cm_program *program, const uint8_t *cipher_key,
                          const uint8_t *mac_key)
{
    const int ciphers = program->kind == CM_CIPHER || program->kind == CM_CHAIN;
    const int gcm = program->kind == CM_GCM || program->kind == CM_GMAC;
    const int raw = program->kind == CM_CHACHA20_POLY1305 || program->kind == CM_POLY1305;
    const int hmac = program->kind == CM_HMAC || program->kind == CM_CHAIN;
    const int des = ciphers && is_des(program);
    const int aes = !des && (ciphers || program->kind == CM_CCM || program->kind == CM_CMAC);
    size_t size = sizeof(struct cm_key);
    (void)section(&size, 0);
    const size_t main_part = section(&size, gcm    ? sizeof(struct gcm_key_data)
                                             : aes ? 2 * 256
                                             : des ? 3 * IMB_DES_KEY_SCHED_SIZE
                                             : raw ? 32
                                                   : 0);
    const size_t subkeys = section(&size, program->kind == CM_CMAC ? 32 : 0);
    const size_t pads = section(&size, hmac ? 128 : 0);
    /* An odd number of cache lines, so that many keys spread over all sets of the cache. */
    size |= 64;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size) != 0)
        return NULL;
    memset(memory, 0, size);
    struct cm_key *key = memory;
    uint8_t *base = memory;
    key->size = size;
    key->enc = key->dec = base + main_part;
    if (gcm)
        expand_gcm(queue->manager, program->cipher_key_len, cipher_key, (struct gcm_key_data *)(base + main_part));
    if (raw)
        memcpy(base + main_part, cipher_key, 32);
    if (des)
        expand_des(key, base + main_part, program->cipher_key_len / 8, cipher_key);
    if (aes) {
        key->dec = base + main_part + 256;
        expand_aes(queue->manager, program->cipher_key_len, cipher_key, base + main_part, base + main_part + 256);
    }
    if (program->kind == CM_CMAC) {
        key->subkey1 = base + subkeys;
        key->subkey2 = base + subkeys + 16;
        if (program->cipher_key_len == 16)
            IMB_AES_CMAC_SUBKEY_GEN_128(queue->manager, key->enc, base + subkeys, base + subkeys + 16);
        else
            IMB_AES_CMAC_SUBKEY_GEN_256(queue->manager, key->enc, base + subkeys, base + subkeys + 16);
    }
    if (hmac) {
        key->ipad = base + pads;
        key->opad = base + pads + 64;
        hmac_half(queue->manager, program->digest, mac_key, 0x36, base + pads);
        hmac_half(queue->manager, program->digest, mac_key, 0x5c, base + pads + 64);
    }
    return key;
}

void cm_key_free(struct cm_key *key)
{
    imb_clear_mem(key, key->size);
    free(key);
}

/* Queues */

struct cm_queue *cm_queue_open(int *error)
{
    struct cm_queue *queue = calloc(1, sizeof(*queue));
    *error = ENOMEM;
    if (queue == NULL)
        return NULL;
    queue->staging = malloc(STAGING_LEN);
    queue->manager = alloc_mb_mgr(0);
    if (queue->staging == NULL || queue->manager == NULL) {
        cm_queue_close(queue);
        return NULL;
    }
    init_mb_mgr_auto(queue->manager, NULL);
    *error = imb_get_errno(queue->manager);
    if (*error == 0 && (queue->manager->features & IMB_FEATURE_SELF_TEST) != 0 &&
        (queue->manager->features & IMB_FEATURE_SELF_TEST_PASS) == 0)
        *error = IMB_ERR_SELFTEST;
    if (*error != 0) {
        cm_queue_close(queue);
        return NULL;
    }
    /* The self-test leaves the empty queue in its middle; run.c counts on its start, see QUEUE_MAX there. */
    queue->manager->earliest_job = -1;
    queue->manager->next_job = 0;
    return queue;
}

void cm_queue_close(struct cm_queue *queue)
{
    if (queue->manager != NULL)
        free_mb_mgr(queue->manager);
    if (queue->staging != NULL) {
        imb_clear_mem(queue->staging, STAGING_LEN);
        free(queue->staging);
    }
    imb_clear_mem(queue, sizeof(*queue));
    free(queue);
}

const char *cm_arch_name(const struct cm_queue *queue)
{
    switch (queue->manager->used_arch) {
    case IMB_ARCH_AVX512:
        return (queue->manager->features & IMB_FEATURE_VAES) != 0 ? "avx512-vaes" : "avx512";
    case IMB_ARCH_AVX2:
        return "avx2";
    case IMB_ARCH_AVX:
        return "avx";
    case IMB_ARCH_SSE:
        return "sse";
    default:
        return "no-aesni";
    }
}

const char *cm_version(void)
{
    return imb_get_version_str();
}

const char *cm_error_text(int error)
{
    return imb_get_strerror(error);
}
