/*
 * Messages through a digest with words of 32 bits, a message a work item: plain digests, and HMAC (RFC 2104) from a
 * key's two midstates. Before this text stand COMPRESS(state, block), STATE_WORDS, TO_WORD(memory), which turns a word in
 * memory into a number and back, FIRST_BIT, the one bit as such a number, and LENGTH_LOW, which of the last two words
 * of a block holds the lower half of the length.
 */

DEVICE void absorb(u32 *state, GLOBAL const u32 *data, u32 len, u32 len_before)
{
    u32 blocks = padded_blocks(len, 64, 8);
    u64 bits = ((u64)len + len_before) << 3;
    ROLLED
    for (u32 number = 0; number < blocks; number++) {
        u32 block[16];
        UNROLL
        for (u32 at = 0; at < 16; at++) {
            block[at] = TO_WORD(padded_word(data, len, 16 * number + at));
        }
        if (number == blocks - 1) {
            block[LENGTH_LOW] = (u32)bits;
            block[29 - LENGTH_LOW] = (u32)(bits >> 32);
        }
        COMPRESS(state, block);
    }
}

DEVICE void write_digest(GLOBAL u32 *tag, const u32 *state, u32 words)
{
    UNROLL
    for (u32 at = 0; at < STATE_WORDS; at++) {
        if (at < words) {
            tag[at] = TO_WORD(state[at]);
        }
    }
}

KERNEL digest(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    u32 state[STATE_WORDS];
    UNROLL
    for (u32 at = 0; at < STATE_WORDS; at++) {
        state[at] = buffer[HEAD_STATE + at];
    }
    absorb(state, buffer + message.at, message.len, 0);
    write_digest(tag_of(buffer, number), state, buffer[HEAD_TAG_WORDS]);
}

KERNEL hmac(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    u32 words = buffer[HEAD_TAG_WORDS];
    u32 state[STATE_WORDS];
    UNROLL
    for (u32 at = 0; at < STATE_WORDS; at++) {
        state[at] = key[at];
    }
    absorb(state, buffer + message.at, message.len, 64);
    /* The outer message: the key's block, which its midstate stands for, and the inner digest. */
    u32 block[16];
    UNROLL
    for (u32 at = 0; at < 16; at++) {
        block[at] = at < STATE_WORDS && at < words ? state[at < STATE_WORDS ? at : 0] : at == words ? FIRST_BIT : 0u;
    }
    block[LENGTH_LOW] = (64 + 4 * words) << 3;
    UNROLL
    for (u32 at = 0; at < STATE_WORDS; at++) {
        state[at] = key[STATE_WORDS + at];
    }
    COMPRESS(state, block);
    write_digest(tag_of(buffer, number), state, words);
}
