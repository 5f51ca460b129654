/* Fills the library's jobs from operations, submits them in bursts and settles what comes back.
 *
 * Which interface runs what (version 1.3):
 *   AES-CBC, AES-CTR                   cipher burst: synchronous, the fastest for these
 *   HMAC-SHA-1 and HMAC-SHA-2          hash burst: synchronous
 *   everything else                    job burst: completed jobs come back later, in order; what remains is flushed
 * All submissions are the checked ones. An HMAC over nothing at all is not done: the library refuses it, and its
 * unchecked calls, given one, answer wrongly from then on. */
#include "internal.h"

#include <string.h>

_Static_assert(sizeof(struct cm_op) == 64, "an operation has 64 bytes");
_Static_assert(offsetof(struct cm_op, input) == 24 && offsetof(struct cm_op, aad) == 40, "the contract's layout");
_Static_assert(offsetof(struct cm_op, tag_len) == 60 && offsetof(struct cm_op, iv_len) == 62, "the contract's layout");

/* The library's lengths are 16 bits wide, the last values of which it keeps for itself. */
#define LEN_MAX 65408
#define CCM_AAD_MAX 46
/* Version 1.3 miscounts its queue once that wraps or is full (corrected in 1.4), so it is drained before. */
#define QUEUE_MAX (IMB_MAX_JOBS - 1)
_Static_assert(CM_WINDOW_MAX == QUEUE_MAX && CM_WINDOW_SYNCHRONOUS == BURST_MAX, "windows fit the library");

/* One run: what all its jobs share. */
struct run {
    struct cm_queue *queue;
    const struct cm_program *program;
    uint8_t *arena;
    const struct cm_op *ops;
    const struct cm_key *const *keys; /* one an operation, NULL for suites without */
    uint8_t *status;
    uint32_t queued; /* jobs given to the library since its queue was empty */
};

static const IMB_HASH_ALG HMAC_ALGORITHM[] = { IMB_AUTH_MD5,          IMB_AUTH_HMAC_SHA_1,   IMB_AUTH_HMAC_SHA_224,
                                               IMB_AUTH_HMAC_SHA_256, IMB_AUTH_HMAC_SHA_384, IMB_AUTH_HMAC_SHA_512 };
static const IMB_HASH_ALG SHA_ALGORITHM[] = { IMB_AUTH_NULL,    IMB_AUTH_SHA_1,   IMB_AUTH_SHA_224,
                                              IMB_AUTH_SHA_256, IMB_AUTH_SHA_384, IMB_AUTH_SHA_512 };
/* The truncations that the library takes for HMAC besides the full length (RFC 2404, 4868). */
static const uint8_t HMAC_SHORT_LEN[] = { 12, 12, 14, 16, 24, 32 };

/* Operations */

/* What a chain's tag covers before the ciphertext: additional data and IV. */
static uint32_t head_len(const struct cm_op *op)
{
    return aad_len(op) + op->iv_len;
}

static void copy_head(uint8_t *to, const uint8_t *arena, const struct cm_op *op)
{
    memcpy(to, arena + aad_offset(op), aad_len(op));
    memcpy(to + aad_len(op), op->iv, op->iv_len);
}

static uint32_t counter(const uint8_t *iv)
{
    return (uint32_t)iv[12] << 24 | (uint32_t)iv[13] << 16 | (uint32_t)iv[14] << 8 | iv[15];
}

/* Bytes before AES-CTR's last four counter bytes wrap. The library lets them wrap on their own, the mode counts with all
 * sixteen (NIST SP 800-38A, B.1), so a message that wraps is done in two parts. */
static uint64_t until_wrap(const struct cm_op *op)
{
    if (op->iv_len != 16)
        return UINT64_MAX;
    return (0x100000000ull - counter(op->iv)) * 16;
}

static int takes(const struct cm_program *program, const struct cm_op *op)
{
    switch (program->kind) {
    case CM_CCM:
        return op->input_len <= LEN_MAX && aad_len(op) <= CCM_AAD_MAX;
    case CM_HMAC:
        return op->input_len > 0 && op->input_len <= LEN_MAX;
    case CM_CHAIN: {
        return (uint64_t)head_len(op) + op->input_len <= LEN_MAX;
    }
    default:
        return op->input_len <= LEN_MAX;
    }
}

/* Whether an operation must be done by itself: a chain with nothing to encrypt, or a counter that wraps. */
static int is_odd(const struct cm_program *program, const struct cm_op *op)
{
    int wraps = program->cipher == CM_AES_CTR && op->input_len > until_wrap(op);
    switch (program->kind) {
    case CM_CIPHER:
        return wraps;
    case CM_CHAIN:
        return op->input_len == 0 || wraps;
    default:
        return 0;
    }
}

/* Whether an operation goes into a burst; otherwise its status says why not. */
static inline int is_plain(const struct run *run, uint32_t i)
{
    const struct cm_op *op = &run->ops[i];
    if (run->status[i] != CM_PENDING)
        return 0;
    if (!takes(run->program, op))
        run->status[i] = CM_FAULT;
    else if (run->program->kind == CM_CIPHER && op->input_len == 0)
        run->status[i] = CM_DONE;
    else if (is_odd(run->program, op))
        run->status[i] = CM_ODD;
    else
        return 1;
    return 0;
}

static int same(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* Jobs: one function a kind sets the fields that the library reads for it. */

static IMB_CIPHER_MODE cipher_mode(const struct cm_program *program)
{
    switch (program->cipher) {
    case CM_AES_ECB:
        return IMB_CIPHER_ECB;
    case CM_AES_CBC:
        return IMB_CIPHER_CBC;
    case CM_AES_CTR:
        return IMB_CIPHER_CNTR;
    case CM_DES_CBC:
        return IMB_CIPHER_DES;
    default:
        return IMB_CIPHER_DES3;
    }
}

static inline void set_cipher(IMB_JOB *job, const struct cm_key *key, const struct cm_op *op, const uint8_t *src,
                              uint8_t *dst)
{
    job->enc_keys = key->enc;
    job->dec_keys = key->dec;
    job->src = src;
    job->dst = dst;
    job->cipher_start_src_offset_in_bytes = 0;
    job->msg_len_to_cipher_in_bytes = op->input_len;
    job->iv = op->iv;
    job->iv_len_in_bytes = op->iv_len;
}

static inline void set_hmac(IMB_JOB *job, const struct cm_key *key)
{
    job->u.HMAC._hashed_auth_key_xor_ipad = key->ipad;
    job->u.HMAC._hashed_auth_key_xor_opad = key->opad;
}

/* Where the library writes the tag: where it belongs when it is to be written and the library knows the length, else to
 * a slot, at full length. */
static inline void set_hmac_tag(IMB_JOB *job, const struct run *run, const struct cm_op *op, uint8_t *slot)
{
    const struct cm_program *program = run->program;
    if (!program->decrypt && (op->tag_len == program->digest_len || op->tag_len == HMAC_SHORT_LEN[program->digest])) {
        job->auth_tag_output = run->arena + op->tag;
        job->auth_tag_output_len_in_bytes = op->tag_len;
    } else {
        job->auth_tag_output = slot;
        job->auth_tag_output_len_in_bytes = program->digest_len;
    }
}

static inline void set_tag(IMB_JOB *job, const struct run *run, const struct cm_op *op, uint8_t *slot)
{
    job->auth_tag_output = run->program->decrypt ? slot : run->arena + op->tag;
    job->auth_tag_output_len_in_bytes = op->tag_len;
}

static inline void set_hash_input(IMB_JOB *job, const uint8_t *src, uint64_t len)
{
    job->src = src;
    job->dst = NULL;
    job->cipher_mode = IMB_CIPHER_NULL;
    job->chain_order = IMB_ORDER_HASH_CIPHER;
    job->hash_start_src_offset_in_bytes = 0;
    job->msg_len_to_hash_in_bytes = len;
}

/* Encrypt, then MAC: the hash runs over additional data, IV and ciphertext, which must lie side by side, and the IV lies in
 * its operation: all three are copied. `text` is where the ciphertext lies, behind the other two. */
static inline void set_chain(IMB_JOB *job, const struct run *run, uint32_t i, uint8_t *slot)
{
    const struct cm_op *op = &run->ops[i];
    const uint32_t head = head_len(op);
    const int decrypt = run->program->decrypt;
    uint8_t *staging = run->queue->staging + run->queue->staged;
    uint8_t *text = staging + head;
    run->queue->staged += (head + op->input_len + 63) & ~63u;
    copy_head(staging, run->arena, op);
    memcpy(text, run->arena + op->input, op->input_len);
    set_cipher(job, run->keys[i], op, text, decrypt ? run->arena + op->output : text);
    job->cipher_mode = cipher_mode(run->program);
    job->hash_alg = HMAC_ALGORITHM[run->program->digest];
    job->chain_order = decrypt ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
    /* Counted from the source; the sum wraps to where the head begins. */
    job->hash_start_src_offset_in_bytes = (uint64_t)0 - head;
    job->msg_len_to_hash_in_bytes = (uint64_t)head + op->input_len;
    set_hmac(job, run->keys[i]);
    set_hmac_tag(job, run, op, slot);
}

static inline void set_aead(IMB_JOB *job, const struct run *run, uint32_t i, uint8_t *slot)
{
    const struct cm_op *op = &run->ops[i];
    const uint8_t *aad = run->arena + aad_offset(op);
    set_cipher(job, run->keys[i], op, run->arena + op->input, run->arena + op->output);
    set_tag(job, run, op, slot);
    job->hash_start_src_offset_in_bytes = 0;
    job->msg_len_to_hash_in_bytes = op->input_len;
    job->chain_order = run->program->decrypt ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
    switch (run->program->kind) {
    case CM_GCM:
        job->cipher_mode = IMB_CIPHER_GCM;
        job->hash_alg = IMB_AUTH_AES_GMAC;
        job->u.GCM.aad = aad;
        job->u.GCM.aad_len_in_bytes = aad_len(op);
        break;
    case CM_CCM:
        /* CCM hashes the plaintext. */
        job->chain_order = run->program->decrypt ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
        job->cipher_mode = IMB_CIPHER_CCM;
        job->hash_alg = IMB_AUTH_AES_CCM;
        job->u.CCM.aad = aad;
        job->u.CCM.aad_len_in_bytes = aad_len(op);
        break;
    default:
        job->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
        job->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
        /* The library knows whole tags only. */
        if (op->tag_len != 16)
            job->auth_tag_output = slot;
        job->auth_tag_output_len_in_bytes = 16;
        job->u.CHACHA20_POLY1305.aad = aad;
        job->u.CHACHA20_POLY1305.aad_len_in_bytes = aad_len(op);
    }
}

static inline void set_mac(IMB_JOB *job, const struct run *run, uint32_t i, uint8_t *slot)
{
    const struct cm_op *op = &run->ops[i];
    set_hash_input(job, run->arena + op->input, op->input_len);
    set_tag(job, run, op, slot);
    switch (run->program->kind) {
    case CM_SHA:
        job->hash_alg = SHA_ALGORITHM[run->program->digest];
        break;
    case CM_CMAC:
        job->hash_alg = run->program->cipher_key_len == 16 ? IMB_AUTH_AES_CMAC : IMB_AUTH_AES_CMAC_256;
        job->u.CMAC._key_expanded = run->keys[i]->enc;
        job->u.CMAC._skey1 = run->keys[i]->subkey1;
        job->u.CMAC._skey2 = run->keys[i]->subkey2;
        break;
    case CM_GMAC:
        job->hash_alg = run->program->cipher_key_len == 16   ? IMB_AUTH_AES_GMAC_128
                        : run->program->cipher_key_len == 24 ? IMB_AUTH_AES_GMAC_192
                                                             : IMB_AUTH_AES_GMAC_256;
        job->u.GMAC._key = run->keys[i]->enc;
        job->u.GMAC._iv = op->iv;
        job->u.GMAC.iv_len_in_bytes = op->iv_len;
        break;
    case CM_POLY1305:
        job->hash_alg = IMB_AUTH_POLY1305;
        job->u.POLY1305._key = run->keys[i]->enc;
        break;
    default:
        job->hash_alg = HMAC_ALGORITHM[run->program->digest];
        set_hmac(job, run->keys[i]);
        set_hmac_tag(job, run, op, slot);
    }
}

static void set_job(IMB_JOB *job, const struct run *run, uint32_t i, uint8_t *slot)
{
    const struct cm_program *program = run->program;
    job->key_len_in_bytes = program->cipher_key_len;
    job->cipher_direction = program->decrypt ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
    job->user_data = (void *)(uintptr_t)i;
    job->user_data2 = slot;
    switch (program->kind) {
    case CM_CIPHER:
        set_cipher(job, run->keys[i], &run->ops[i], run->arena + run->ops[i].input, run->arena + run->ops[i].output);
        job->cipher_mode = cipher_mode(program);
        job->hash_alg = IMB_AUTH_NULL;
        job->chain_order = IMB_ORDER_CIPHER_HASH;
        break;
    case CM_GCM:
    case CM_CCM:
    case CM_CHACHA20_POLY1305:
        set_aead(job, run, i, slot);
        break;
    case CM_CHAIN:
        set_chain(job, run, i, slot);
        break;
    default:
        set_mac(job, run, i, slot);
    }
}

/* Ends */

/* Compares or copies a tag that lies in a slot; zeroes what did not verify. */
static void settle_tag(const struct run *run, uint32_t i, const uint8_t *tag)
{
    const struct cm_op *op = &run->ops[i];
    uint8_t *place = run->arena + op->tag;
    run->status[i] = CM_DONE;
    if (!run->program->decrypt) {
        if (tag != place)
            memcpy(place, tag, op->tag_len);
        return;
    }
    if (!same(tag, place, op->tag_len)) {
        /* What lies at the output is zeroed by the caller, as for every operation that does not end well. */
        run->status[i] = CM_AUTH_FAILED;
    }
}

static void settle(const struct run *run, const IMB_JOB *job)
{
    const uint32_t i = (uint32_t)(uintptr_t)job->user_data;
    const struct cm_op *op = &run->ops[i];
    if (job->status != IMB_STATUS_COMPLETED) {
        run->status[i] = CM_FAULT;
        return;
    }
    if (run->program->kind == CM_CIPHER) {
        run->status[i] = CM_DONE;
        return;
    }
    /* A chain's ciphertext lies where it was staged. */
    if (run->program->kind == CM_CHAIN && !run->program->decrypt)
        memcpy(run->arena + op->output, job->dst, op->input_len);
    settle_tag(run, i, job->auth_tag_output);
}

/* Synchronous bursts */

static int has_cipher_burst(const struct cm_program *program)
{
    return program->kind == CM_CIPHER && (program->cipher == CM_AES_CBC || program->cipher == CM_AES_CTR);
}

static int has_hash_burst(const struct cm_program *program)
{
    return program->kind == CM_HMAC && program->digest != CM_MD5;
}

/* At most BURST_MAX operations. */
static void run_cipher_burst(const struct run *run, uint32_t count)
{
    const struct cm_program *program = run->program;
    const int counts = program->cipher == CM_AES_CTR;
    IMB_JOB *jobs = run->queue->jobs;
    uint8_t place[BURST_MAX];
    uint32_t filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct cm_op *op = &run->ops[i];
        /* The common case first: of a length that the library takes, and no counter to look at. */
        const int common = run->status[i] == CM_PENDING && op->input_len - 1 < LEN_MAX && !counts;
        if (!common && !is_plain(run, i))
            continue;
        set_cipher(&jobs[filled], run->keys[i], op, run->arena + op->input, run->arena + op->output);
        place[filled++] = (uint8_t)i;
    }
    if (filled == 0)
        return;
    const uint32_t ended = IMB_SUBMIT_CIPHER_BURST(run->queue->manager, jobs, filled, cipher_mode(program),
                                                   program->decrypt ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT,
                                                   (IMB_KEY_SIZE_BYTES)program->cipher_key_len);
    /* The burst is taken as a whole or not at all. */
    for (uint32_t j = 0; j < filled; j++)
        run->status[place[j]] = ended == filled ? CM_DONE : CM_FAULT;
}

static void run_hash_burst(const struct run *run, uint32_t count)
{
    IMB_JOB *jobs = run->queue->jobs;
    uint32_t filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_plain(run, i))
            continue;
        jobs[filled].user_data = (void *)(uintptr_t)i;
        jobs[filled].status = IMB_STATUS_BEING_PROCESSED;
        set_mac(&jobs[filled], run, i, run->queue->tags[filled]);
        filled++;
    }
    if (filled == 0)
        return;
    IMB_SUBMIT_HASH_BURST(run->queue->manager, jobs, filled, HMAC_ALGORITHM[run->program->digest]);
    for (uint32_t j = 0; j < filled; j++)
        settle(run, &jobs[j]);
}

/* Job bursts */

static void drain(struct run *run)
{
    IMB_JOB *jobs[BURST_MAX];
    uint32_t count;
    while ((count = IMB_FLUSH_BURST(run->queue->manager, BURST_MAX, jobs)) > 0)
        for (uint32_t i = 0; i < count; i++)
            settle(run, jobs[i]);
    run->queue->staged = 0;
    run->queued = 0;
}

/* How many of the next entries go into one burst: what the queue and the staging area hold. */
static uint32_t burst_len(const struct run *run, const uint32_t *next, uint32_t count)
{
    if (count > QUEUE_MAX - run->queued)
        count = QUEUE_MAX - run->queued;
    if (run->program->kind != CM_CHAIN)
        return count;
    size_t need = run->queue->staged;
    for (uint32_t i = 0; i < count; i++) {
        const struct cm_op *op = &run->ops[next[i]];
        need += (head_len(op) + (size_t)op->input_len + 63) & ~(size_t)63;
        if (need > STAGING_LEN)
            return i;
    }
    return count;
}

static void submit(struct run *run, const uint32_t *next, uint32_t count)
{
    IMB_MGR *manager = run->queue->manager;
    while (count > 0) {
        IMB_JOB *jobs[BURST_MAX];
        uint32_t fits = burst_len(run, next, count);
        uint32_t given = fits > 0 ? IMB_GET_NEXT_BURST(manager, fits, jobs) : 0;
        if (given == 0) {
            drain(run);
            continue;
        }
        for (uint32_t i = 0; i < given; i++)
            set_job(jobs[i], run, next[i], run->queue->tags[next[i]]);
        uint32_t ended = IMB_SUBMIT_BURST(manager, given, jobs);
        run->queued += given;
        if (ended == 0 && imb_get_errno(manager) != 0) {
            /* Nothing of this burst was taken: all of it failed, the jobs before it are still to be ended. */
            for (uint32_t i = 0; i < given; i++)
                run->status[next[i]] = CM_FAULT;
            drain(run);
        }
        for (uint32_t i = 0; i < ended; i++)
            settle(run, jobs[i]);
        next += given;
        count -= given;
    }
}

static void run_jobs(struct run *run, uint32_t count)
{
    uint32_t next[BURST_MAX];
    uint32_t filled = 0;
    run->queue->staged = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_plain(run, i))
            continue;
        next[filled++] = i;
        if (filled == BURST_MAX) {
            submit(run, next, filled);
            filled = 0;
        }
    }
    submit(run, next, filled);
    drain(run);
}

/* Odd operations, one at a time. */

static int run_alone(const struct run *run, const IMB_JOB *wanted)
{
    IMB_MGR *manager = run->queue->manager;
    IMB_JOB *job;
    if (IMB_GET_NEXT_BURST(manager, 1, &job) != 1)
        return 0;
    *job = *wanted;
    uint32_t ended = IMB_SUBMIT_BURST(manager, 1, &job);
    if (ended == 0 && imb_get_errno(manager) == 0)
        ended = IMB_FLUSH_BURST(manager, 1, &job);
    return ended == 1 && job->status == IMB_STATUS_COMPLETED;
}

/* HMAC to `tag` at full length. */
static int hmac_alone(const struct run *run, uint32_t i, const uint8_t *src, size_t len, uint8_t *tag)
{
    IMB_JOB job = { 0 };
    job.cipher_direction = IMB_DIR_ENCRYPT;
    set_hash_input(&job, src, len);
    job.hash_alg = HMAC_ALGORITHM[run->program->digest];
    set_hmac(&job, run->keys[i]);
    job.auth_tag_output = tag;
    job.auth_tag_output_len_in_bytes = run->program->digest_len;
    return run_alone(run, &job);
}

/* A cipher, in two parts where a counter wraps. */
static int cipher_alone(const struct run *run, uint32_t i, const uint8_t *src, uint8_t *dst)
{
    const struct cm_op *op = &run->ops[i];
    uint64_t first = op->input_len;
    uint8_t iv[16];
    if (run->program->cipher == CM_AES_CTR && first > until_wrap(op))
        first = until_wrap(op);
    memcpy(iv, op->iv, sizeof(iv));
    for (uint64_t done = 0, len = first; done < op->input_len; done += len, len = op->input_len - done) {
        IMB_JOB job = { 0 };
        set_cipher(&job, run->keys[i], op, src + done, dst + done);
        job.key_len_in_bytes = run->program->cipher_key_len;
        job.cipher_direction = run->program->decrypt ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
        job.cipher_mode = cipher_mode(run->program);
        job.hash_alg = IMB_AUTH_NULL;
        job.chain_order = IMB_ORDER_CIPHER_HASH;
        job.iv = iv;
        job.msg_len_to_cipher_in_bytes = len;
        if (!run_alone(run, &job))
            return 0;
        /* The second part starts where the last four bytes are zero and the twelve before them one higher. */
        memset(iv + 12, 0, 4);
        for (int place = 11; place >= 0 && ++iv[place] == 0; place--)
            ;
    }
    return 1;
}

static int chain_alone(const struct run *run, uint32_t i)
{
    const struct cm_op *op = &run->ops[i];
    const size_t head = head_len(op);
    uint8_t *staging = run->queue->staging;
    uint8_t *text = staging + head;
    uint8_t tag[64];
    copy_head(staging, run->arena, op);
    memcpy(text, run->arena + op->input, op->input_len);
    if (!run->program->decrypt && !cipher_alone(run, i, text, text))
        return 0;
    if (!hmac_alone(run, i, staging, head + op->input_len, tag))
        return 0;
    settle_tag(run, i, tag);
    if (run->program->decrypt && run->status[i] == CM_DONE && !cipher_alone(run, i, text, text))
        return 0;
    if (run->status[i] == CM_DONE)
        memcpy(run->arena + op->output, text, op->input_len);
    return 1;
}

static void run_odd(const struct run *run, uint32_t i)
{
    const struct cm_op *op = &run->ops[i];
    int ok;
    if (run->program->kind == CM_CIPHER) {
        ok = cipher_alone(run, i, run->arena + op->input, run->arena + op->output);
        run->status[i] = CM_DONE;
    } else {
        ok = chain_alone(run, i);
    }
    if (!ok)
        run->status[i] = CM_FAULT;
}

size_t cm_window(const struct cm_program *program)
{
    return has_cipher_burst(program) || has_hash_burst(program) ? CM_WINDOW_SYNCHRONOUS : CM_WINDOW_MAX;
}

void cm_run(struct cm_queue *queue, const struct cm_program *program, uint8_t *arena, const struct cm_op *ops,
            const struct cm_key *const *keys, uint8_t *status, size_t count)
{
    struct run run = { queue, program, arena, ops, keys, status, 0 };
    if (has_cipher_burst(program))
        run_cipher_burst(&run, (uint32_t)count);
    else if (has_hash_burst(program))
        run_hash_burst(&run, (uint32_t)count);
    else
        run_jobs(&run, (uint32_t)count);
    if (program->kind != CM_CHAIN && program->cipher != CM_AES_CTR)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (status[i] == CM_ODD)
            run_odd(&run, i);
}
