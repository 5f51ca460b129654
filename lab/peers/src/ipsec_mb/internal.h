/* What the two halves of the shim share: queues and keys as they are. */
#ifndef CIPHERMILL_IPSEC_MB_INTERNAL_H
#define CIPHERMILL_IPSEC_MB_INTERNAL_H

#define NO_COMPAT_IMB_API_053
#include "shim.h"

#include <intel-ipsec-mb.h>
#include <string.h>

#define BURST_MAX IMB_MAX_BURST_SIZE
#define STAGING_LEN (1u << 20)

struct cm_queue {
    IMB_MGR *manager;
    uint8_t *staging; /* chains: additional data, IV and ciphertext side by side */
    size_t staged;
    uint8_t tags[CM_WINDOW_MAX][64];
    IMB_JOB jobs[BURST_MAX];
};

struct cm_key {
    const void *enc;
    const void *dec;
    const uint8_t *ipad;
    const uint8_t *opad;
    const void *subkey1;
    const void *subkey2;
    const void *des[3];
    size_t size;
};

/* Where an operation's additional data lie, and how long they are; the fields are not aligned. */
static inline uint32_t aad_offset(const struct cm_op *op)
{
    uint32_t offset;
    memcpy(&offset, op->aad, 4);
    return offset;
}

static inline uint32_t aad_len(const struct cm_op *op)
{
    uint16_t len;
    memcpy(&len, op->aad + 4, 2);
    return len;
}

#endif
