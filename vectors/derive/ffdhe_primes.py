#!/usr/bin/env python3
"""Computes the primes of RFC 7919, appendix A, from their formula and prints them as Rust constants:

    python3 vectors/derive/ffdhe_primes.py | rustfmt --edition 2024 > core/pairs/src/ffdhe.rs

Each is p = 2^n - 2^(n-64) + (floor(2^(n-130) e) + X) 2^64 - 1 with the smallest X for which both p and (p - 1) / 2
are prime. X is the RFC's; that p and q are prime is checked here by Miller and Rabin's test.
"""

import secrets

GROUPS = ((2048, 560316), (3072, 2625351), (4096, 5736041))
ROUNDS = 40


def scaled_e(bits):
    """floor(2^bits e), by the series of 1/k! in fixed point with guard bits."""
    guard = 64
    term = total = 1 << (bits + guard)
    k = 1
    while term:
        term //= k
        total += term
        k += 1
    # Each of the k divisions lost less than one unit; the guard bits must not be about to carry.
    assert (total + k) >> guard == total >> guard
    return total >> guard


def is_prime(n):
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(ROUNDS):
        x = pow(secrets.randbelow(n - 3) + 2, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def prime(bits, x):
    p = 2**bits - 2 ** (bits - 64) + (scaled_e(bits - 130) + x) * 2**64 - 1
    assert is_prime(p) and is_prime((p - 1) // 2), f"ffdhe{bits}"
    return p


def main():
    print("//! The primes of RFC 7919, appendix A, big-endian. Their generator is 2.")
    print("//!")
    print("//! Made by `vectors/derive/ffdhe_primes.py`; do not edit.\n")
    for bits, x in GROUPS:
        value = prime(bits, x).to_bytes(bits // 8, "big")
        print(f"/// The prime of ffdhe{bits}: X is {x}.")
        print(f"pub(crate) const FFDHE{bits}: [u8; {len(value)}] = [{', '.join(f'0x{b:02x}' for b in value)}];\n")


if __name__ == "__main__":
    main()
