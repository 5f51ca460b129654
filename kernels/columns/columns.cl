/*
 * Columns on their way into a packed batch and out of it. The host sends columns as they lie: stretches of the caller's
 * buffers, offsets, IVs. `spread` makes messages of them, as batch.h says, in memory that the host never sees; a
 * suite's kernel works on those; `collect` writes data, tags and statuses back to where the columns want them. A work item
 * has one operation.
 *
 * Behind the head of the batch there is a second one (engines/gpu/src/columns/share.rs). Places are counted in bytes from
 * the buffer's start here, unless said otherwise; they wrap, as do offsets of which the host sends 32 bits of 64.
 */
#define COLUMNS_HEAD 32

#define INPUT_OFFSETS (COLUMNS_HEAD + 0)  /* the word where offsets of the inputs begin, one more than operations; or zero */
#define INPUT_STRIDE (COLUMNS_HEAD + 1)   /* else what lies between one and the next */
#define INPUT_LEN (COLUMNS_HEAD + 2)      /* and the bytes of data of each */
#define INPUT_MORE (COLUMNS_HEAD + 3)     /* what offsets count beside the data */
#define INPUT_ORIGIN (COLUMNS_HEAD + 4)   /* added to an offset it is the place of the data */
#define OUTPUT_OFFSETS (COLUMNS_HEAD + 5) /* the same for outputs; offsets of the starts alone */
#define OUTPUT_STRIDE (COLUMNS_HEAD + 6)
#define OUTPUT_ORIGIN (COLUMNS_HEAD + 7)
#define SPREAD_FROM (COLUMNS_HEAD + 8)    /* the first operation's offset */
#define SPREAD_GRAIN (COLUMNS_HEAD + 9)   /* data are padded to multiples of as many bytes, a power of two */
#define SHARED_KEY (COLUMNS_HEAD + 10)    /* the place of everybody's key, in words; or all ones */
#define IV_SOURCE (COLUMNS_HEAD + 11)
#define IV_LEN (COLUMNS_HEAD + 12)        /* bytes of an IV, a multiple of four */
#define IV_ORIGIN (COLUMNS_HEAD + 13)
#define IV_SHIFT (COLUMNS_HEAD + 14)      /* words of zero before it on the device */
#define IV_LAST (COLUMNS_HEAD + 15)       /* the word behind it, if there is one */
#define IV_PLACE_WORDS (COLUMNS_HEAD + 16) /* words behind all that, which say where a part lies in its message */
#define IV_BACK (COLUMNS_HEAD + 17)       /* how far before the output's data IVs are to be put; or zero */
#define AAD_OFFSETS (COLUMNS_HEAD + 18)   /* as those of inputs, for additional data that are each operation's own */
#define AAD_STRIDE (COLUMNS_HEAD + 19)
#define AAD_LEN (COLUMNS_HEAD + 20)
#define AAD_ORIGIN (COLUMNS_HEAD + 21)
#define AAD_FROM (COLUMNS_HEAD + 22)
#define AAD_OWN (COLUMNS_HEAD + 23)       /* whether they are */
#define TAG_SIDE (COLUMNS_HEAD + 24)
#define TAG_LEN (COLUMNS_HEAD + 25)       /* bytes of a tag there */
#define TAG_ORIGIN (COLUMNS_HEAD + 26)    /* where a column of tags begins */
#define OPENS (COLUMNS_HEAD + 27)         /* whether tags are compared with what is there */
#define STATUSES (COLUMNS_HEAD + 28)      /* a byte an operation, where tags are compared */
#define TRANSFORMS (COLUMNS_HEAD + 29)    /* whether data come back */
#define LEFT_OUT (COLUMNS_HEAD + 30)      /* a byte an operation, zero where there is something to do; or zero */
#define IV_COUNTER (COLUMNS_HEAD + 32)    /* four words: the first of IVs that are counted */

#define IVS_NONE 0
#define IVS_COLUMN 1  /* one behind the other from IV_ORIGIN on */
#define IVS_INLINE 2  /* at IV_ORIGIN and an input's offset */
#define IVS_COUNTED 3 /* the operation's number is added to the last four bytes, big-endian */

#define TAGS_NONE 0
#define TAGS_BEFORE 1 /* directly before the ciphertext */
#define TAGS_BEHIND 2 /* directly behind it */
#define TAGS_COLUMN 3

#define STATUS_DONE 1
#define STATUS_AUTH_FAILED 2

/* Four bytes from anywhere. The word behind them may be read as well. */
DEVICE u32 word_at(GLOBAL const u32 *buffer, u32 place)
{
    u32 shift = 8 * (place & 3);
    u32 low = buffer[place >> 2];
    return shift == 0 ? low : (low >> shift) | (buffer[(place >> 2) + 1] << (32 - shift));
}

DEVICE u32 byte_at(GLOBAL const u32 *buffer, u32 place)
{
    return ((GLOBAL const u8 *)buffer)[place];
}

/* Copies bytes to whole words and fills up with zeros. */
DEVICE void take(GLOBAL u32 *buffer, u32 to_word, u32 from, u32 len, u32 room)
{
    ROLLED
    for (u32 at = 0; at < room; at += 4) {
        buffer[to_word + at / 4] = at < len ? bytes_below(word_at(buffer, from + at), at, len) : 0;
    }
}

/* Copies bytes to anywhere, or zeros where the mask is zero. What lies around them may be another item's. */
DEVICE void put(GLOBAL u32 *buffer, u32 to, u32 from, u32 len, u32 mask)
{
    GLOBAL u8 *bytes = (GLOBAL u8 *)buffer;
    u32 at = 0;
    ROLLED
    for (; at < len && ((to + at) & 3) != 0; at++) {
        bytes[to + at] = (u8)(byte_at(buffer, from + at) & mask);
    }
    ROLLED
    for (; at + 4 <= len; at += 4) {
        buffer[(to + at) >> 2] = word_at(buffer, from + at) & mask;
    }
    ROLLED
    for (; at < len; at++) {
        bytes[to + at] = (u8)(byte_at(buffer, from + at) & mask);
    }
}

/* Where an extent begins, less its origin. */
DEVICE u32 start_of(GLOBAL const u32 *buffer, u32 offsets, u32 stride, u32 number)
{
    u32 at = buffer[offsets];
    return at != 0 ? buffer[at + number] : number * buffer[stride];
}

/* A word of an operation's IV, counted from its start. */
DEVICE u32 iv_word(GLOBAL const u32 *buffer, u32 number, u32 start, u32 word)
{
    u32 source = buffer[IV_SOURCE], len = buffer[IV_LEN];
    if (source == IVS_COUNTED) {
        u32 first = buffer[IV_COUNTER + word];
        return 4 * word + 4 == len ? swap_32(swap_32(first) + number) : first;
    }
    return word_at(buffer, buffer[IV_ORIGIN] + 4 * word + (source == IVS_COLUMN ? number * len : start));
}

/* Whether the caller has left an operation out: its extents ascend like the others', and are no data. */
DEVICE u32 is_left_out(GLOBAL const u32 *buffer, u32 number)
{
    return buffer[LEFT_OUT] != 0 && byte_at(buffer, buffer[LEFT_OUT] + number) != 0;
}

KERNEL spread(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    u32 start = start_of(buffer, INPUT_OFFSETS, INPUT_STRIDE, number);
    u32 offsets = buffer[INPUT_OFFSETS];
    u32 len = offsets != 0 ? buffer[offsets + number + 1] - start - buffer[INPUT_MORE] : buffer[INPUT_LEN];
    u32 left_out = is_left_out(buffer, number);
    len = left_out ? 0 : len;
    u32 grain = buffer[SPREAD_GRAIN];
    /* So much room that no two meet, wherever they began. */
    u32 data_at = buffer[HEAD_DATA_AT] + ((((start - buffer[SPREAD_FROM]) & ~(grain - 1)) + number * grain) >> 2);
    take(buffer, data_at, buffer[INPUT_ORIGIN] + start, len, (len + grain - 1) & ~(grain - 1));
    u32 aad_at = buffer[HEAD_AAD_AT], aad_len = buffer[HEAD_AAD_LEN];
    if (buffer[AAD_OWN] != 0) {
        u32 aad_start = start_of(buffer, AAD_OFFSETS, AAD_STRIDE, number);
        u32 aad_offsets = buffer[AAD_OFFSETS];
        aad_len = aad_offsets != 0 ? buffer[aad_offsets + number + 1] - aad_start : buffer[AAD_LEN];
        aad_len = left_out ? 0 : aad_len;
        aad_at += (((aad_start - buffer[AAD_FROM]) & ~15u) + number * 16) >> 2;
        take(buffer, aad_at, buffer[AAD_ORIGIN] + aad_start, aad_len, (aad_len + 15) & ~15u);
    }
    GLOBAL u32 *entry = buffer + buffer[HEAD_INDEX_AT] + 4 * number;
    entry[0] = data_at;
    entry[1] = len;
    entry[2] = aad_at;
    entry[3] = aad_len;
    if (buffer[SHARED_KEY] != 0xffffffffu) {
        buffer[buffer[HEAD_KEYS_AT] + number] = buffer[SHARED_KEY];
    }
    u32 iv_words = buffer[HEAD_IV_WORDS], place_words = buffer[IV_PLACE_WORDS];
    u32 iv_at = buffer[HEAD_IVS_AT] + number * iv_words;
    u32 shift = buffer[IV_SHIFT], own_words = buffer[IV_LEN] / 4;
    ROLLED
    for (u32 word = 0; word + place_words < iv_words; word++) {
        u32 value = word < shift ? 0 : buffer[IV_LAST];
        buffer[iv_at + word] = word - shift < own_words ? iv_word(buffer, number, start, word - shift) : value;
    }
    /* The message is its own first part. */
    if (place_words > 0) {
        buffer[iv_at + iv_words - place_words] = 0;
    }
    if (place_words > 1) {
        buffer[iv_at + iv_words - 1] = len;
    }
}

KERNEL collect(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT] || is_left_out(buffer, number)) {
        return;
    }
    GLOBAL const u32 *entry = buffer + buffer[HEAD_INDEX_AT] + 4 * number;
    u32 data = 4 * entry[0], len = entry[1];
    u32 start = start_of(buffer, INPUT_OFFSETS, INPUT_STRIDE, number);
    u32 input = buffer[INPUT_ORIGIN] + start;
    u32 output = buffer[OUTPUT_ORIGIN] + start_of(buffer, OUTPUT_OFFSETS, OUTPUT_STRIDE, number);
    u32 good = 0xffffffffu;
    u32 side = buffer[TAG_SIDE];
    if (side != TAGS_NONE) {
        u32 tag_len = buffer[TAG_LEN], opens = buffer[OPENS];
        u32 sealed = opens != 0 ? input : output;
        u32 tag = side == TAGS_COLUMN ? buffer[TAG_ORIGIN] + number * tag_len
                : side == TAGS_BEFORE ? sealed - tag_len
                                      : sealed + len;
        u32 own = 4 * (buffer[HEAD_TAGS_AT] + number * buffer[HEAD_TAG_WORDS]);
        if (opens != 0) {
            u32 differs = 0;
            ROLLED
            for (u32 at = 0; at < tag_len; at++) {
                differs |= byte_at(buffer, tag + at) ^ byte_at(buffer, own + at);
            }
            /* All ones when no bit differs. */
            good = (differs | (0 - differs)) >> 31;
            good -= 1;
            ((GLOBAL u8 *)buffer)[buffer[STATUSES] + number] = (u8)choose_32(good, STATUS_DONE, STATUS_AUTH_FAILED);
        } else {
            put(buffer, tag, own, tag_len, good);
        }
    }
    if (buffer[TRANSFORMS] != 0) {
        put(buffer, output, data, len, good);
    }
    if (buffer[IV_BACK] != 0) {
        u32 iv_len = buffer[IV_LEN];
        put(buffer, output - buffer[IV_BACK], buffer[IV_ORIGIN] + number * iv_len, iv_len, good);
    }
}
