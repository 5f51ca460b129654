#!/usr/bin/env python3
"""Computes the primes of RFC 7919, appendix A, of RFC 2409, 6.2, and of RFC 3526 from their formula and prints them as Rust constants:

    python3 vectors/derive/dh_primes.py | rustfmt --edition 2024 > core/pairs/src/dh_primes.rs

Each is p = 2^n - 2^(n-64) + (floor(2^(n-130) c) + X) 2^64 - 1 with the smallest X for which both p and (p - 1) / 2
are prime; c is e in RFC 7919, pi in the groups of IKE. X is the RFCs'; that p and q are prime is checked here by Miller and
Rabin's test, and that 2 is a square modulo p, so that it generates the subgroup of order q, by Euler's criterion.
"""

import secrets

FFDHE = ((2048, 560316), (3072, 2625351), (4096, 5736041))
MODP = (
    (1024, 129093),
    (1536, 741804),
    (2048, 124476),
    (3072, 1690314),
    (4096, 240904),
    (6144, 929484),
    (8192, 4743158),
)
ROUNDS = 10


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


def scaled_pi(bits):
    """floor(2^bits pi), by Machin's formula: 16 arctan(1/5) - 4 arctan(1/239)."""
    guard = 64

    def arctan_of_inverse(x):
        power = total = (1 << (bits + guard)) // x
        k = 1
        while power:
            power //= x * x
            k += 2
            total += -(power // k) if k % 4 == 3 else power // k
        return total

    total = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    slack = 1 << 32
    assert (total + slack) >> guard == (total - slack) >> guard
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


def primes():
    """Name, size in bits, X and prime of every group."""
    for name, scaled, groups in (("ffdhe", scaled_e, FFDHE), ("modp", scaled_pi, MODP)):
        for bits, x in groups:
            yield f"{name}{bits}", bits, x, 2**bits - 2 ** (bits - 64) + (scaled(bits - 130) + x) * 2**64 - 1


def main():
    print("//! The primes of RFC 7919, appendix A, of RFC 2409, 6.2, and of RFC 3526, big-endian. Their generator is 2.")
    print("//!")
    print("//! Made by `vectors/derive/dh_primes.py`; do not edit.\n")
    for name, bits, x, p in primes():
        assert is_prime(p) and is_prime((p - 1) // 2), name
        assert pow(2, (p - 1) // 2, p) == 1, name
        value = p.to_bytes(bits // 8, "big")
        body = ", ".join(f"0x{b:02x}" for b in value)
        print(f"/// The prime of {name}: X is {x}.")
        print(f"pub(crate) const {name.upper()}: [u8; {len(value)}] = [{body}];\n")


if __name__ == "__main__":
    main()
