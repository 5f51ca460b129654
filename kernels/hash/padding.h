/*
 * Padding of the Merkle-Damgard digests: MD5 (RFC 1321, 3.1 and 3.2), SHA-1 and SHA-2 (FIPS 180-4, 5.1).
 *
 * A message is followed by a one bit, zeros, and its length in bits at the end of the last block.
 */

/* Word `number` of a message with its one bit, as it lies in memory. The host pads the last word with zeros. */
DEVICE u32 padded_word(GLOBAL const u32 *data, u32 len, u32 number)
{
    u32 at = 4 * number;
    u32 word = at < len ? data[number] : 0u;
    if (at <= len && len - at < 4) {
        word |= 0x80u << (8 * (len - at));
    }
    return word;
}

/* Blocks of `block_len` bytes that a message takes up with its one bit and `length_len` bytes of length. */
DEVICE u32 padded_blocks(u32 len, u32 block_len, u32 length_len)
{
    return len / block_len + (len % block_len + 1 + length_len > block_len ? 2 : 1);
}
