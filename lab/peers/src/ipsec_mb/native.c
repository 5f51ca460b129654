/* Native loops: what a program that is written for the library does, without the shim's translation.
 *
 * Outside of the timed part: keys are expanded, messages lie in buffers of their own in which they are worked on in place,
 * those of chains as in ESP (additional data, IV and text side by side), constant fields of the jobs are set, and where jobs are the caller's own all of them may be filled. Inside: the
 * fields that differ from operation to operation, the calls, and the comparison of tags when opening. */
#define _POSIX_C_SOURCE 200112L
#include "native.h"

#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define BURST_LEN_MAX 256
/* Tags that are compared rather than kept; more than the library can have in flight. */
#define SLOTS 512
/* What the library's queue takes before it must be drained: see run.c. */
#define QUEUE_MAX (IMB_MAX_JOBS - 1)

/* An operation as the loops want it: one cache line. */
struct item {
    const uint8_t *src;
    uint8_t *dst;
    const struct cm_key *key;
    const uint8_t *aad;
    uint8_t *tag;
    uint8_t iv[16];
    uint32_t len;
    uint16_t head; /* chains: bytes of additional data and IV before the text */
    uint16_t aad_len;
};
_Static_assert(sizeof(struct item) == 64, "one cache line");

struct cm_native {
    struct cm_program program;
    struct cm_queue *queue;
    uint8_t *arena;
    const struct cm_op *ops;
    struct item *items;
    size_t count;
    uint8_t *packets; /* messages that are worked on in place, and chains' as in ESP */
    IMB_JOB *prefilled;
    IMB_JOB ciphers[BURST_LEN_MAX];
    IMB_JOB hashes[BURST_LEN_MAX];
    uint8_t slots[SLOTS][64];
};

static const IMB_HASH_ALG HMAC[] = { IMB_AUTH_MD5,          IMB_AUTH_HMAC_SHA_1,   IMB_AUTH_HMAC_SHA_224,
                                     IMB_AUTH_HMAC_SHA_256, IMB_AUTH_HMAC_SHA_384, IMB_AUTH_HMAC_SHA_512 };

/* Whether messages are worked on in place, as users do: not where a second run would find other tags than the first. */
static int is_in_place(const struct cm_program *program)
{
    return program->kind == CM_CIPHER || (program->kind != CM_HMAC && !program->decrypt);
}

static int has_packets(const struct cm_program *program)
{
    return program->kind == CM_CHAIN || is_in_place(program);
}

static uint32_t head_len(const struct cm_program *program, const struct cm_op *op)
{
    return program->kind == CM_CHAIN ? aad_len(op) + op->iv_len : 0;
}

static size_t packet_len(const struct cm_program *program, const struct cm_op *op)
{
    return ((size_t)head_len(program, op) + op->input_len + 63) & ~(size_t)63;
}

static IMB_CIPHER_MODE mode(const struct cm_program *program)
{
    switch (program->cipher) {
    case CM_AES_CBC:
        return IMB_CIPHER_CBC;
    case CM_DES_CBC:
        return IMB_CIPHER_DES;
    default:
        return IMB_CIPHER_DES3;
    }
}

static int is_cbc(const struct cm_program *program)
{
    return program->cipher == CM_AES_CBC || program->cipher == CM_DES_CBC || program->cipher == CM_3DES_CBC;
}

static int fits(const struct cm_program *program, const struct cm_op *op)
{
    const int whole_tag = op->tag_len == program->digest_len;
    if (op->input_len == 0 || op->input_len + aad_len(op) + op->iv_len > 65408)
        return 0;
    switch (program->kind) {
    case CM_CIPHER:
        return is_cbc(program);
    case CM_GCM:
        return op->iv_len == 12;
    case CM_HMAC:
        return whole_tag;
    case CM_CHAIN:
        return whole_tag && is_cbc(program);
    default:
        return 0;
    }
}

/* Jobs */

/* What all jobs of a suite have in common. */
static void set_constants(IMB_JOB *job, const struct cm_native *native)
{
    const struct cm_program *program = &native->program;
    const struct cm_op *op = &native->ops[0];
    memset(job, 0, sizeof(*job));
    job->key_len_in_bytes = program->cipher_key_len;
    job->cipher_direction = program->decrypt ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
    job->chain_order = program->decrypt ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
    job->iv_len_in_bytes = op->iv_len;
    job->auth_tag_output_len_in_bytes = op->tag_len;
    switch (program->kind) {
    case CM_CIPHER:
        job->cipher_mode = mode(program);
        job->hash_alg = IMB_AUTH_NULL;
        job->chain_order = IMB_ORDER_CIPHER_HASH;
        break;
    case CM_GCM:
        job->cipher_mode = IMB_CIPHER_GCM;
        job->hash_alg = IMB_AUTH_AES_GMAC;
        break;
    case CM_HMAC:
        job->cipher_mode = IMB_CIPHER_NULL;
        job->hash_alg = HMAC[program->digest];
        job->chain_order = IMB_ORDER_HASH_CIPHER;
        break;
    default:
        job->cipher_mode = mode(program);
        job->hash_alg = HMAC[program->digest];
    }
}

static inline void fill_cipher(IMB_JOB *job, const struct item *item)
{
    job->enc_keys = item->key->enc;
    job->dec_keys = item->key->dec;
    job->src = item->src;
    job->dst = item->dst;
    job->iv = item->iv;
    job->msg_len_to_cipher_in_bytes = item->len;
}

/* Counted from the text; the sum wraps to where the head begins, which is none where there is no chain. */
static inline void fill_hash(IMB_JOB *job, const struct item *item, uint8_t *tag)
{
    job->src = item->src;
    job->hash_start_src_offset_in_bytes = (uint64_t)0 - item->head;
    job->msg_len_to_hash_in_bytes = (uint64_t)item->head + item->len;
    job->u.HMAC._hashed_auth_key_xor_ipad = item->key->ipad;
    job->u.HMAC._hashed_auth_key_xor_opad = item->key->opad;
    job->auth_tag_output = tag;
}

static inline void fill(IMB_JOB *job, uint8_t kind, const struct item *item, uint8_t *tag)
{
    job->status = IMB_STATUS_BEING_PROCESSED;
    job->user_data = item->tag;
    if (kind != CM_HMAC)
        fill_cipher(job, item);
    if (kind == CM_GCM) {
        job->msg_len_to_hash_in_bytes = item->len;
        job->u.GCM.aad = item->aad;
        job->u.GCM.aad_len_in_bytes = item->aad_len;
        job->auth_tag_output = tag;
    } else if (kind != CM_CIPHER) {
        fill_hash(job, item, tag);
    }
}

/* Where the library writes an operation's tag: where it belongs, or beside, to be compared. */
static inline uint8_t *tag_place(struct cm_native *native, size_t i)
{
    return native->program.decrypt ? native->slots[i % SLOTS] : native->items[i].tag;
}

static inline int same(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

static inline int ended_well(const struct cm_native *native, const IMB_JOB *job)
{
    if (job->status != IMB_STATUS_COMPLETED)
        return 0;
    if (native->program.kind == CM_CIPHER || !native->program.decrypt)
        return 1;
    return same(job->auth_tag_output, job->user_data, job->auth_tag_output_len_in_bytes);
}

/* Loops */

static size_t drain(struct cm_native *native, int *ok)
{
    IMB_JOB *jobs[BURST_MAX];
    size_t ended = 0;
    uint32_t count;
    while ((count = IMB_FLUSH_BURST(native->queue->manager, BURST_MAX, jobs)) > 0) {
        for (uint32_t j = 0; j < count; j++)
            *ok &= ended_well(native, jobs[j]);
        ended += count;
    }
    return ended;
}

static int run_jobs(struct cm_native *native, const struct cm_way *way)
{
    IMB_MGR *manager = native->queue->manager;
    IMB_JOB *jobs[BURST_MAX];
    const uint8_t kind = native->program.kind;
    size_t done = 0, queued = 0;
    int ok = 1;
    for (size_t i = 0; i < native->count;) {
        uint32_t want = native->count - i < way->burst ? (uint32_t)(native->count - i) : way->burst;
        if (!way->undrained && queued + want > QUEUE_MAX) {
            done += drain(native, &ok);
            queued = 0;
        }
        const uint32_t given = IMB_GET_NEXT_BURST(manager, want, jobs);
        if (given == 0) {
            const size_t flushed = drain(native, &ok);
            if (flushed == 0)
                return 0;
            done += flushed;
            queued = 0;
            continue;
        }
        for (uint32_t j = 0; j < given; j++)
            fill(jobs[j], kind, &native->items[i + j], tag_place(native, i + j));
        const uint32_t ended = way->unchecked ? IMB_SUBMIT_BURST_NOCHECK(manager, given, jobs)
                                              : IMB_SUBMIT_BURST(manager, given, jobs);
        for (uint32_t j = 0; j < ended; j++)
            ok &= ended_well(native, jobs[j]);
        done += ended;
        queued += given;
        i += given;
    }
    done += drain(native, &ok);
    return ok && done == native->count;
}

static inline uint32_t submit_ciphers(struct cm_native *native, const struct cm_way *way, IMB_JOB *jobs, uint32_t count)
{
    const struct cm_program *program = &native->program;
    const IMB_CIPHER_DIRECTION direction = program->decrypt ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
    const IMB_KEY_SIZE_BYTES key_len = (IMB_KEY_SIZE_BYTES)program->cipher_key_len;
    IMB_MGR *manager = native->queue->manager;
    return way->unchecked ? IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager, jobs, count, mode(program), direction, key_len)
                          : IMB_SUBMIT_CIPHER_BURST(manager, jobs, count, mode(program), direction, key_len);
}

static inline uint32_t submit_hashes(struct cm_native *native, const struct cm_way *way, IMB_JOB *jobs, uint32_t count)
{
    IMB_MGR *manager = native->queue->manager;
    const IMB_HASH_ALG algorithm = HMAC[native->program.digest];
    return way->unchecked ? IMB_SUBMIT_HASH_BURST_NOCHECK(manager, jobs, count, algorithm)
                          : IMB_SUBMIT_HASH_BURST(manager, jobs, count, algorithm);
}

static int run_bursts(struct cm_native *native, const struct cm_way *way)
{
    const uint8_t kind = native->program.kind;
    const int compares = kind == CM_HMAC && native->program.decrypt;
    int ok = 1;
    for (size_t i = 0; i < native->count; i += way->burst) {
        const uint32_t count = native->count - i < way->burst ? (uint32_t)(native->count - i) : way->burst;
        IMB_JOB *jobs = way->interface == CM_PREFILLED ? native->prefilled + i
                        : kind == CM_CIPHER            ? native->ciphers
                                                       : native->hashes;
        if (way->interface == CM_FILLED)
            for (uint32_t j = 0; j < count; j++)
                fill(&jobs[j], kind, &native->items[i + j], tag_place(native, i + j));
        ok &= count == (kind == CM_CIPHER ? submit_ciphers(native, way, jobs, count)
                                          : submit_hashes(native, way, jobs, count));
        for (uint32_t j = 0; compares && j < count; j++)
            ok &= same(jobs[j].auth_tag_output, jobs[j].user_data, jobs[j].auth_tag_output_len_in_bytes);
    }
    return ok;
}

/* Encrypt, then MAC, as two bursts over messages that stay in the cache between them. */
static int run_two_bursts(struct cm_native *native, const struct cm_way *way)
{
    const int decrypt = native->program.decrypt;
    int ok = 1;
    for (size_t i = 0; i < native->count; i += way->burst) {
        const uint32_t count = native->count - i < way->burst ? (uint32_t)(native->count - i) : way->burst;
        for (uint32_t j = 0; j < count; j++) {
            const struct item *item = &native->items[i + j];
            native->hashes[j].status = IMB_STATUS_BEING_PROCESSED;
            fill_cipher(&native->ciphers[j], item);
            fill_hash(&native->hashes[j], item, tag_place(native, i + j));
        }
        if (!decrypt)
            ok &= submit_ciphers(native, way, native->ciphers, count) == count;
        ok &= submit_hashes(native, way, native->hashes, count) == count;
        for (uint32_t j = 0; decrypt && j < count; j++)
            ok &= same(native->hashes[j].auth_tag_output, native->items[i + j].tag, native->program.digest_len);
        if (decrypt)
            ok &= submit_ciphers(native, way, native->ciphers, count) == count;
    }
    return ok;
}

static int run_direct(struct cm_native *native)
{
    IMB_MGR *manager = native->queue->manager;
    const uint16_t tag_len = native->ops[0].tag_len;
    const int decrypt = native->program.decrypt;
    const aes_gcm_enc_dec_t call = native->program.cipher_key_len == 16 ? (decrypt ? manager->gcm128_dec : manager->gcm128_enc)
                                   : native->program.cipher_key_len == 24
                                       ? (decrypt ? manager->gcm192_dec : manager->gcm192_enc)
                                       : (decrypt ? manager->gcm256_dec : manager->gcm256_enc);
    struct gcm_context_data context;
    int ok = 1;
    for (size_t i = 0; i < native->count; i++) {
        const struct item *item = &native->items[i];
        uint8_t *tag = tag_place(native, i);
        call(item->key->enc, &context, item->dst, item->src, item->len, item->iv, item->aad, item->aad_len, tag, tag_len);
        if (decrypt)
            ok &= same(tag, item->tag, tag_len);
    }
    return ok;
}

int cm_native_run(struct cm_native *native, const struct cm_way *way)
{
    switch (way->interface) {
    case CM_JOBS:
        return run_jobs(native, way);
    case CM_TWO_BURSTS:
        return run_two_bursts(native, way);
    case CM_DIRECT:
        return run_direct(native);
    default:
        return run_bursts(native, way);
    }
}

int cm_native_has(const struct cm_native *native, const struct cm_way *way)
{
    const struct cm_program *program = &native->program;
    const int ciphers = program->cipher == CM_AES_CBC;
    const int hashes = program->digest != CM_MD5;
    switch (way->interface) {
    case CM_JOBS:
        return way->burst <= BURST_MAX;
    case CM_TWO_BURSTS:
        return program->kind == CM_CHAIN && ciphers && hashes && way->burst <= BURST_LEN_MAX;
    case CM_DIRECT:
        return program->kind == CM_GCM;
    default:
        return ((program->kind == CM_CIPHER && ciphers) || (program->kind == CM_HMAC && hashes)) &&
               way->burst <= BURST_LEN_MAX;
    }
}

/* Making ready */

static int make_items(struct cm_native *native, const struct cm_key *const *keys)
{
    const struct cm_program *program = &native->program;
    const int packed = has_packets(program);
    size_t total = 0;
    for (size_t i = 0; i < native->count; i++) {
        const struct cm_op *op = &native->ops[i];
        if (!fits(program, op) || op->iv_len != native->ops[0].iv_len || op->tag_len != native->ops[0].tag_len)
            return 0;
        total += packed ? packet_len(program, op) : 0;
    }
    if (posix_memalign((void **)&native->items, 64, native->count * sizeof(struct item)) != 0)
        return 0;
    if (posix_memalign((void **)&native->packets, 64, total + 64) != 0)
        return 0;
    uint8_t *packet = native->packets;
    for (size_t i = 0; i < native->count; i++) {
        const struct cm_op *op = &native->ops[i];
        struct item *item = &native->items[i];
        item->head = (uint16_t)head_len(program, op);
        item->key = keys[i];
        item->len = op->input_len;
        item->aad = native->arena + aad_offset(op);
        item->aad_len = (uint16_t)aad_len(op);
        item->tag = native->arena + op->tag;
        memcpy(item->iv, op->iv, sizeof(item->iv));
        item->src = packed ? packet + item->head : native->arena + op->input;
        item->dst = is_in_place(program) ? packet + item->head : native->arena + op->output;
        packet += packed ? packet_len(program, op) : 0;
    }
    return 1;
}

int cm_native_restart(struct cm_native *native)
{
    int error = 0;
    if (native->queue != NULL)
        cm_queue_close(native->queue);
    native->queue = cm_queue_open(&error);
    if (native->queue == NULL)
        return 0;
    for (uint32_t i = 0; i < IMB_MAX_JOBS; i++)
        set_constants(&native->queue->manager->jobs[i], native);
    for (size_t i = 0; has_packets(&native->program) && i < native->count; i++) {
        const struct cm_op *op = &native->ops[i];
        const struct item *item = &native->items[i];
        uint8_t *packet = (uint8_t *)item->src - item->head;
        if (native->program.kind == CM_CHAIN) {
            memcpy(packet, item->aad, item->aad_len);
            memcpy(packet + item->aad_len, op->iv, op->iv_len);
        }
        memcpy(packet + item->head, native->arena + op->input, op->input_len);
    }
    return 1;
}

struct cm_native *cm_native_new(const struct cm_program *program, uint8_t *arena, const struct cm_op *ops,
                                const struct cm_key *const *keys, size_t count)
{
    struct cm_native *native = calloc(1, sizeof(*native));
    if (native == NULL || count == 0) {
        free(native);
        return NULL;
    }
    native->program = *program;
    native->arena = arena;
    native->ops = ops;
    native->count = count;
    native->prefilled = calloc(count, sizeof(IMB_JOB));
    if (native->prefilled == NULL || !make_items(native, keys) || !cm_native_restart(native)) {
        cm_native_free(native);
        return NULL;
    }
    for (size_t i = 0; i < BURST_LEN_MAX; i++) {
        set_constants(&native->ciphers[i], native);
        set_constants(&native->hashes[i], native);
    }
    for (size_t i = 0; i < count; i++) {
        set_constants(&native->prefilled[i], native);
        fill(&native->prefilled[i], program->kind, &native->items[i], tag_place(native, i));
    }
    return native;
}

void cm_native_free(struct cm_native *native)
{
    if (native->queue != NULL)
        cm_queue_close(native->queue);
    free(native->prefilled);
    free(native->packets);
    free(native->items);
    free(native);
}

void cm_native_collect(struct cm_native *native)
{
    if (!is_in_place(&native->program))
        return;
    for (size_t i = 0; i < native->count; i++)
        memcpy(native->arena + native->ops[i].output, native->items[i].dst, native->items[i].len);
}
