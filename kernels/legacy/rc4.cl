/*
 * RC4, a message a work item, each from the start of the key stream. A prepared key is the permutation after the key
 * schedule, 256 bytes. The permutation of each item is in local memory, a column of bytes; where it is read depends on
 * the key, so that this is for legacy use only.
 */
#define RC4_GROUP_MAX 64
#define RC4_AT(index) permutation[(index) * RC4_GROUP_MAX]

KERNEL stream(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    LOCAL u8 permutations[256 * RC4_GROUP_MAX];
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    LOCAL_POINTER u8 *permutation = permutations + ITEM_IN_GROUP;
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    ROLLED
    for (u32 word = 0; word < 64; word++) {
        u32 four = key[word];
        UNROLL
        for (u32 byte = 0; byte < 4; byte++) {
            RC4_AT(4 * word + byte) = (u8)(four >> (8 * byte));
        }
    }
    Message message = message_of(buffer, number);
    GLOBAL u32 *data = buffer + message.at;
    u32 i = 0, j = 0;
    ROLLED
    for (u32 word = 0; 4 * word < message.len; word++) {
        u32 stream = 0;
        UNROLL
        for (u32 byte = 0; byte < 4; byte++) {
            i = (i + 1) & 0xff;
            u32 a = RC4_AT(i);
            j = (j + a) & 0xff;
            u32 b = RC4_AT(j);
            RC4_AT(i) = (u8)b;
            RC4_AT(j) = (u8)a;
            stream |= (u32)RC4_AT((a + b) & 0xff) << (8 * byte);
        }
        data[word] ^= stream;
    }
}
