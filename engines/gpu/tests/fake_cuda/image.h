/*
 * What the double's compiler gives for machine code: a head, and a shared object behind it.
 */
#pragma once

#include <cstdint>

namespace fake {

constexpr char IMAGE_MAGIC[9] = "FAKECUDA";

struct ImageHead {
    char magic[8];
    uint64_t len;
};

} /* namespace fake */
