/* The library as its users call it, on the operations of one workload: what can be made ready before is made ready
 * before, and several ways are there to be tried. */
#ifndef CIPHERMILL_IPSEC_MB_NATIVE_H
#define CIPHERMILL_IPSEC_MB_NATIVE_H

#include "shim.h"

/* The interfaces that run a workload. */
enum cm_interface {
    CM_JOBS,        /* job bursts: jobs of the library's queue are filled, completed ones come back later */
    CM_FILLED,      /* synchronous bursts of the cipher or of the hash, jobs filled burst by burst */
    CM_PREFILLED,   /* the same, all jobs filled before */
    CM_TWO_BURSTS,  /* chains: a synchronous burst of the cipher and one of the hash */
    CM_DIRECT       /* one call for each operation, where the library has one */
};

struct cm_way {
    uint8_t interface;
    uint8_t unchecked; /* the calls that leave arguments unchecked */
    uint8_t undrained; /* jobs stay in the library's queue from burst to burst until the end */
    uint8_t reserved;
    uint32_t burst;
};

struct cm_native;

/* Makes ready what `count` operations need; NULL without memory or where a suite or a length has no native loop. The
 * operations, the arena and the keys stay where they are, and outlive the result. */
struct cm_native *cm_native_new(const struct cm_program *program, uint8_t *arena, const struct cm_op *ops,
                                const struct cm_key *const *keys, size_t count);
void cm_native_free(struct cm_native *native);

/* Whether the library has such a way for the suite. */
int cm_native_has(const struct cm_native *native, const struct cm_way *way);

/* Puts inputs back that a run overwrites in place, and empties the library's queue. 0 when the library does not start. */
int cm_native_restart(struct cm_native *native);

/* Runs all operations. 0 when the library did not do all of them or a tag was wrong. */
int cm_native_run(struct cm_native *native, const struct cm_way *way);

/* Copies outputs that do not lie in the arena to their places there. */
void cm_native_collect(struct cm_native *native);

#endif
