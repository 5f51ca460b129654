/*
 * A packed batch, as the host lays it out (engines/gpu/src/pack.rs) and every kernel reads it.
 *
 * A buffer of words: a head of HEAD_WORDS, then an index where lengths differ, then the places of the messages' keys among
 * the resident keys, IVs, data and tags. Data are worked on in place. Uniform batches have no index: message number n lies
 * at n strides. Every place is counted in words from the buffer's start, lengths in bytes.
 */
#define HEAD_WORDS 32

#define HEAD_COUNT 0     /* messages */
#define HEAD_INDEX_AT 1  /* three words a message: where its data lie, their bytes, bytes of additional data */
#define HEAD_KEYS_AT 2   /* a word a message */
#define HEAD_IVS_AT 3
#define HEAD_DATA_AT 4
#define HEAD_TAGS_AT 5
#define HEAD_STRIDE 6    /* words from one message's data to the next; zero where there is an index */
#define HEAD_LEN 7       /* bytes of each message's data, where there is no index */
#define HEAD_IV_WORDS 8  /* words of an IV */
#define HEAD_TAG_WORDS 9 /* words of a tag */
#define HEAD_AAD_LEN 10  /* bytes of each message's additional data, where there is no index */
#define HEAD_ROUNDS 11   /* a cipher's rounds or passes */
#define HEAD_STATE 16    /* a digest's initial state, sixteen words */

/* One message: where its data begin, additional data first, each part padded to whole blocks of 16 bytes. */
typedef struct {
    u32 at;
    u32 len;
    u32 aad_len;
} Message;

DEVICE Message message_of(GLOBAL const u32 *buffer, u32 number)
{
    Message message;
    u32 stride = buffer[HEAD_STRIDE];
    if (stride != 0) {
        message.at = buffer[HEAD_DATA_AT] + number * stride;
        message.len = buffer[HEAD_LEN];
        message.aad_len = buffer[HEAD_AAD_LEN];
    } else {
        GLOBAL const u32 *entry = buffer + buffer[HEAD_INDEX_AT] + 3 * number;
        message.at = entry[0];
        message.len = entry[1];
        message.aad_len = entry[2];
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
