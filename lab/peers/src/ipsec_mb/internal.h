/* What the two halves of the shim share: queues and keys as they are. */
#ifndef CIPHERMILL_IPSEC_MB_INTERNAL_H
#define CIPHERMILL_IPSEC_MB_INTERNAL_H

#define NO_COMPAT_IMB_API_053
#include "shim.h"

#include <intel-ipsec-mb.h>

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

#endif
