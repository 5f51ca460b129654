/*
 * A packed batch, as the host lays it out (engines/gpu/src/pack.rs) and every kernel reads it.
 *
 * A buffer of words: a head of HEAD_WORDS, then an index where lengths differ, then the places of the messages' keys among
 * the resident keys, IVs, data and tags. Data are worked on in place. Uniform batches have no index: message number n lies
 * at n strides. Every place is counted in words from the buffer's start, lengths in bytes.
 */
#define HEAD_WORDS 32

#define HEAD_COUNT 0     /* messages */
#define HEAD_INDEX_AT 1  /* four words a message: where its data lie, their bytes, where its additional data lie, theirs */
#define HEAD_KEYS_AT 2   /* a word a message */
#define HEAD_IVS_AT 3
#define HEAD_DATA_AT 4
#define HEAD_TAGS_AT 5
#define HEAD_STRIDE 6    /* words from one message's data to the next; zero where there is an index */
#define HEAD_LEN 7       /* bytes of each message's data, where there is no index */
#define HEAD_IV_WORDS 8  /* words of an IV */
#define HEAD_TAG_WORDS 9 /* words of a tag */
#define HEAD_ROUNDS 10   /* a cipher's rounds or passes */
#define HEAD_AAD_AT 11   /* where the first message's additional data lie, where there is no index */
#define HEAD_AAD_STRIDE 12 /* words from one message's to the next; zero when all share them */
#define HEAD_AAD_LEN 13  /* bytes of each message's */
#define HEAD_SCRATCH_AT 14 /* where the memory that work items have to themselves begins, behind the staging buffer's part */
#define HEAD_SCRATCH_WORDS 15 /* words of it a work item */
#define HEAD_STATE 16    /* a digest's initial state, sixteen words */

/* One message. Data and additional data are padded with zeros to whole blocks of the cipher. */
typedef struct {
    u32 at;
    u32 len;
    u32 aad_at;
    u32 aad_len;
} Message;

DEVICE Message message_of(GLOBAL const u32 *buffer, u32 number)
{
    Message message;
    u32 stride = buffer[HEAD_STRIDE];
    if (stride != 0) {
        message.at = buffer[HEAD_DATA_AT] + number * stride;
        message.len = buffer[HEAD_LEN];
        message.aad_at = buffer[HEAD_AAD_AT] + number * buffer[HEAD_AAD_STRIDE];
        message.aad_len = buffer[HEAD_AAD_LEN];
    } else {
        GLOBAL const u32 *entry = buffer + buffer[HEAD_INDEX_AT] + 4 * number;
        message.at = entry[0];
        message.len = entry[1];
        message.aad_at = entry[2];
        message.aad_len = entry[3];
    }
    return message;
}

/* Where a message's prepared key lies. */
DEVICE GLOBAL const u32 *key_of(GLOBAL const u32 *buffer, GLOBAL const u32 *keys, u32 number)
{
    return keys + buffer[buffer[HEAD_KEYS_AT] + number];
}

DEVICE GLOBAL const u32 *iv_of(GLOBAL const u32 *buffer, u32 number)
{
    return buffer + buffer[HEAD_IVS_AT] + number * buffer[HEAD_IV_WORDS];
}

DEVICE GLOBAL u32 *tag_of(GLOBAL u32 *buffer, u32 number)
{
    return buffer + buffer[HEAD_TAGS_AT] + number * buffer[HEAD_TAG_WORDS];
}

/*
 * Memory that a work item has to itself. Its word number w is at w * SCRATCH_STRIDE: the items of a group lie side by side,
 * so that they read and write whole lines together. What is in there at first is of no meaning.
 */
#define SCRATCH_STRIDE 64

DEVICE GLOBAL u32 *scratch_of(GLOBAL u32 *buffer)
{
    return buffer + buffer[HEAD_SCRATCH_AT] + (GROUP * buffer[HEAD_SCRATCH_WORDS]) * SCRATCH_STRIDE + ITEM_IN_GROUP;
}

/* The first `len` bytes of a word of memory that lies `at` bytes from where `len` is counted; zeros behind them. */
DEVICE u32 bytes_below(u32 word, u32 at, u32 len)
{
    u32 there = at < len ? len - at : 0;
    return there >= 4 ? word : word & ((1u << (8 * (there & 3))) - 1);
}
