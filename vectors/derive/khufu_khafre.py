#!/usr/bin/env python3
"""Derives test vectors for Khufu and Khafre, apart from the Rust code.

Written a second time and in another shape on purpose: an S-box is four byte
permutations here (four 32-bit columns in one word there), the key stream is a
generator, and a round works on the 64-bit block as one number. Standard
library only.

Source of the algorithms: R. C. Merkle, "Fast Software Encryption Functions",
CRYPTO '90, and US patent 5,003,597 with its reference program (Appendix A).
Source of the digits: RAND Corporation, "A Million Random Digits with 100,000
Normal Deviates", 1955, lines 00000 to 00060.

The script stops with an error unless it reproduces the two outputs that the
patent publishes; then it prints what vectors/data/legacy/khufu_khafre.txt holds:

    python3 vectors/derive/khufu_khafre.py > vectors/data/legacy/khufu_khafre.txt
"""

import hashlib
import pathlib
import sys

DIGITS = pathlib.Path(__file__).parents[2] / "engines/reference/src/legacy/rand_digits.txt"
ROTATIONS = (16, 16, 8, 8, 16, 16, 24, 24)
LOW = 0xFFFFFFFF


def initial_columns():
    """Shuffles four identity columns with the digits of the book."""
    digits = iter([int(c) for c in DIGITS.read_text() if c.isdigit()])
    used = 0
    columns = []
    for _ in range(4):
        column = list(range(256))
        for row in range(255):
            choices = 256 - row
            width = len(str(choices - 1))
            limit = 10**width // choices * choices
            while True:
                number = int("".join(str(next(digits)) for _ in range(width)))
                used += width
                if number < limit:
                    break
            other = row + number % choices
            column[row], column[other] = column[other], column[row]
        columns.append(column)
    assert used == 3027, used
    return columns


def octet(block, columns):
    """Eight rounds over a block held as one number, left half uppermost."""
    for turn in ROTATIONS:
        left, right = block >> 32, block & LOW
        row = left & 0xFF
        word = int.from_bytes(bytes(column[row] for column in columns), "big")
        turned = ((left << 32 | left) >> turn) & LOW
        block = (right ^ word) << 32 | turned
    return block


def unoctet(block, columns):
    """Takes eight rounds back."""
    for turn in reversed(ROTATIONS):
        mixed, turned = block >> 32, block & LOW
        left = ((turned << 32 | turned) >> (32 - turn)) & LOW
        row = left & 0xFF
        word = int.from_bytes(bytes(column[row] for column in columns), "big")
        block = left << 32 | (mixed ^ word)
    return block


INITIAL = initial_columns()


def stir(state):
    """One pass over the key state: 16 rounds, initial S-box, CBC from its own tail."""
    chain = int.from_bytes(state[56:], "big")
    out = b""
    for at in range(0, 64, 8):
        chain ^= int.from_bytes(state[at : at + 8], "big")
        chain = octet(octet(chain, INITIAL), INITIAL)
        out += chain.to_bytes(8, "big")
    return out


def key_bytes(state):
    """Yields (byte, refilled) from byte 16 on; refilled is true after the last byte of a state."""
    at = 16
    while True:
        byte = state[at]
        at += 1
        refilled = at == 64
        if refilled:
            at, state = 0, stir(state)
        yield byte, refilled


def khufu_tables(key, octets):
    """Auxiliary keys (two 64-bit numbers) and one set of columns an octet."""
    state = key.ljust(64, b"\0")
    for _ in range(3):
        state = stir(state)
    before, after = int.from_bytes(state[:8], "big"), int.from_bytes(state[8:16], "big")
    stream = key_bytes(state)
    boxes = []
    for _ in range(octets):
        columns = [list(column) for column in INITIAL]
        for column in columns:
            bits = 8
            for row in range(255):
                while True:
                    byte, refilled = next(stream)
                    other = row + byte % 2**bits
                    if refilled:
                        bits = min(bits, (255 - row).bit_length())
                    if other < 256:
                        break
                column[row], column[other] = column[other], column[row]
        boxes.append(columns)
    return before, after, boxes


def khufu(key, rounds, plaintext):
    before, after, boxes = khufu_tables(key, rounds // 8)
    block = plaintext ^ before
    for box in boxes:
        block = octet(block, box)
    ciphertext = block ^ after
    back = ciphertext ^ after
    for box in reversed(boxes):
        back = unoctet(back, box)
    assert back ^ before == plaintext
    return ciphertext


STANDARD = [INITIAL] + khufu_tables(bytes(64), 7)[2]


def khafre_pad(key, position):
    """The key words of one whitening, each half turned right by its position."""
    pair = position % (len(key) // 8)
    halves = []
    for half in (0, 4):
        word = int.from_bytes(key[pair * 8 + half : pair * 8 + half + 4], "big")
        halves.append(((word << 32 | word) >> position) & LOW)
    return halves[0] << 32 | halves[1]


def khafre(key, rounds, plaintext):
    octets = rounds // 8
    assert (octets + 1) % (len(key) // 8) == 0, "each key word is used equally often"
    block = plaintext ^ khafre_pad(key, 0)
    for at in range(octets):
        block = octet(block, STANDARD[at]) ^ khafre_pad(key, at + 1)
    back = block
    for at in reversed(range(octets)):
        back = unoctet(back ^ khafre_pad(key, at + 1), STANDARD[at])
    assert back ^ khafre_pad(key, 0) == plaintext
    return block


def cbc(cipher, key, message):
    chain, out = 0, ""
    for at in range(0, len(message), 8):
        chain = cipher(key, 16, chain ^ int.from_bytes(message[at : at + 8], "big"))
        out += f"{chain:016x}"
    return out


def check_published():
    """The two runs of the patent's reference program: 'pharaoh khufu 345 e0 16' and 'khafre'."""
    message = b"Hello there, world!\n".ljust(24, b"\0")
    message = message[:20] + b"\x80" + message[21:]
    short = bytes.fromhex("3450000000000000")
    published = {
        khufu: "daa19c48c60e2947c87fd857beeb1d71d76cc01b1de661be",
        khafre: "8662f6734e9348d7e300c7ced25c8b85379ead82e1681d4c",
    }
    for cipher, want in published.items():
        got = cbc(cipher, short, message)
        if got != want:
            sys.exit(f"{cipher.__name__}: {got} is not the patent's {want}")


def table_digest(boxes):
    """SHA-256 over the S-boxes, row by row, uppermost column first."""
    rows = b"".join(bytes(c[row] for c in box) for box in boxes for row in range(256))
    return hashlib.sha256(rows).hexdigest()


def main():
    check_published()
    print("# Khufu and Khafre: cipher, rounds, key, plaintext, ciphertext; and SHA-256 over S-boxes.")
    print("# Source: vectors/derive/khufu_khafre.py, which reproduces the outputs that US patent")
    print("# 5,003,597 publishes. Made by the script; not to be edited.")
    print("initial-sbox", table_digest([INITIAL]))
    print("standard-sboxes", table_digest(STANDARD))
    counting = bytes(range(64))
    blocks = (0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFF)
    for rounds in range(8, 65, 8):
        for key in (counting[:1], counting[:16], counting):
            for block in blocks:
                print("khufu", rounds, key.hex(), f"{block:016x} {khufu(key, rounds, block):016x}")
    for rounds in range(8, 65, 8):
        for pairs in range(1, 9):
            if (rounds // 8 + 1) % pairs == 0:
                key = counting[: 8 * pairs]
                for block in blocks:
                    print("khafre", rounds, key.hex(), f"{block:016x} {khafre(key, rounds, block):016x}")


if __name__ == "__main__":
    main()
