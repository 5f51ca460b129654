#!/usr/bin/env python3
"""Makes vectors/data/made/odd_keys.json: keys at and beyond the edge of what `core/contract/src/suite/acceptance.rs` lets in,
with that rule's verdict on each. They are put together here from numbers, with nothing but Python's standard library and, for the
parameters of most curves, OpenSSL; the numbers come from a generator with a fixed seed, so that every run makes the same file. They are public; protect nothing
with them.

    python3 vectors/derive/odd_keys.py
"""

import json
import pathlib
import random
from math import gcd, lcm

from curve_arithmetic import LEGACY, Prime, multiply, named
from dh_primes import primes

OUT = pathlib.Path(__file__).parents[1] / "data" / "made" / "odd_keys.json"
RNG = random.Random("odd keys")

RSA_ENCRYPTION = "2a864886f70d010101"
RSASSA_PSS = "2a864886f70d01010a"
EC_PUBLIC_KEY = "2a8648ce3d0201"
PRIME_FIELD = "2a8648ce3d0101"
BINARY_FIELD = "2a8648ce3d0102"
# Identifiers and curves: P-256 and P-384 by SEC 2, 2.4.2 and 2.5.1; others by OpenSSL, identifiers by SEC 2, A.2, and RFC 5639, 4.1.
CURVES = {
    "p256": ("2a8648ce3d030107", Prime(
        2**256 - 2**224 + 2**192 + 2**96 - 1, -3,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
        (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
         0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5),
        0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551)),
    "p384": ("2b81040022", Prime(
        2**384 - 2**128 - 2**96 + 2**32 - 1, -3,
        0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
        (0xAA87CA22BE8B05378EB1C71EF320AD746E1D3B628BA79B9859F741E082542A385502F25DBF55296C3A545E3872760AB7,
         0x3617DE4A96262C6F5D9E98BF9292DC29F8F41DBD289A147CE9DA3113B5F0B8C00A60B1CE1D7E819D7A431D7C90EA0E5F),
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973)),
} | {name: (f"2b810400{number:02x}", named(name))
     for name, number in zip(LEGACY, (8, 1, 2, 15, 26, 27, 16, 17, 36, 37, 38, 39), strict=True)}
# Those that came later stand behind the others, whose numbers stay what they are.
LATER = {
    "p521": ("2b81040023", named("secp521r1")),
    "secp256k1": ("2b8104000a", named("secp256k1")),
    "p224": ("2b81040021", named("secp224r1")),
    "brainpoolp256r1": ("2b2403030208010107", named("brainpoolP256r1")),
    "brainpoolp384r1": ("2b240303020801010b", named("brainpoolP384r1")),
}
CURVES |= LATER
KEYS = []


def add(kind, form, name, der, taken):
    KEYS.append({"id": name, "kind": kind, "form": form, "taken": taken, "bytes": der.hex()})


def element(tag, *parts):
    body = b"".join(parts)
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def sequence(*parts):
    return element(0x30, *parts)


def integer(number):
    return element(2, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def octets(data):
    return element(4, data)


def bits(data, unused=0):
    return element(3, bytes([unused]), data)


def oid(hexadecimal):
    return element(6, bytes.fromhex(hexadecimal))


NULL = element(5)
RSA = sequence(oid(RSA_ENCRYPTION), NULL)


def pkcs8(algorithm, key, version=0, *rest):
    return sequence(integer(version), algorithm, octets(key), *rest)


def spki(algorithm, key, unused=0):
    return sequence(algorithm, bits(key, unused))


# RSA


def is_prime(number):
    if any(number % small == 0 for small in range(3, 1000, 2)):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        power = pow(RNG.randrange(2, number - 1), odd, number)
        for _ in range(twos):
            square = power * power % number
            if square == 1 and power not in (1, number - 1):
                return False
            power = square
        if power != 1:
            return False
    return True


def prime(size, *exponents):
    """A prime with its two top bits set, to which the exponents have inverses."""
    while True:
        number = RNG.getrandbits(size) | 3 << (size - 2) | 1
        if is_prime(number) and all(gcd(number - 1, e) == 1 for e in exponents):
            return number


def public(n, e, algorithm=RSA):
    return spki(algorithm, sequence(integer(n), integer(e)))


def private_numbers(n, e, d, p, q, dp=None, dq=None, inverse=None, version=0, rest=b""):
    dp = d % (p - 1) if dp is None else dp
    dq = d % (q - 1) if dq is None else dq
    inverse = pow(q, -1, p) if inverse is None else inverse
    return sequence(*map(integer, (version, n, e, d, p, q, dp, dq, inverse)), rest)


def private(*numbers, **others):
    return pkcs8(RSA, private_numbers(*numbers, **others))


def rsa():
    kind = "rsa-2048"
    f4 = 65537
    p, q = prime(1024, 3, f4, 2**32 + 1, 2**33 - 1, 2**33 + 1), prime(1024, 3, f4, 2**32 + 1, 2**33 - 1, 2**33 + 1)
    p, q = max(p, q), min(p, q)
    n, order = p * q, lcm(p - 1, q - 1)
    for e, taken in ((3, True), (f4, True), (2**32 + 1, True), (2**33 - 1, True), (2**33 + 1, False), (1, False)):
        d = pow(e, -1, order)
        add(kind, "private", f"e = {e}", private(n, e, d, p, q), taken)
        add(kind, "public", f"e = {e}", public(n, e), taken)
    for e in (0, 2, 65536, n, n + 2):
        add(kind, "public", "e = 0" if e == 0 else f"e of {e.bit_length()} bits, {'even' if e % 2 == 0 else 'odd'}",
            public(n, e), False)
    d = pow(f4, -1, order)
    add(kind, "private", "the smaller prime first", private(n, f4, d, q, p), True)
    add(kind, "private", "d modulo (p - 1)(q - 1)", private(n, f4, pow(f4, -1, (p - 1) * (q - 1)), p, q), True)
    beyond = d + (n // order + 1) * order
    add(kind, "private", "d above n", private(n, f4, beyond, p, q), False)
    for name, others in (("dP", {"dp": d % (p - 1) + 2}), ("dQ", {"dq": d % (q - 1) + 2}),
                         ("qInv", {"inverse": pow(q, -1, p) + 1}), ("qInv not reduced", {"inverse": pow(q, -1, p) + p}),
                         ("dP not reduced", {"dp": d % (p - 1) + p - 1})):
        add(kind, "private", f"wrong {name}", private(n, f4, d, p, q, **others), False)
    add(kind, "private", "wrong d", private(n, f4, d + 2, p, q), False)
    add(kind, "private", "wrong n", private(n + 2, f4, d, p, q), False)
    add(kind, "private", "a prime of one", private(n, f4, d, n, 1, dq=0, inverse=1), False)
    add(kind, "private", "no primes", private(n, f4, d, p, q, dp=0, dq=0, inverse=0).replace(
        integer(p) + integer(q), integer(0) + integer(0)), False)
    add(kind, "private", "a negative modulus", pkcs8(RSA, private_numbers(-n, f4, d, p, q)), False)
    add(kind, "private", "a version of two", private(n, f4, d, p, q, version=2), False)
    add(kind, "public", "an even modulus", public(n - 1, f4), False)
    add(kind, "public", "a negative modulus", public(-n, f4), False)
    add(kind, "public", "2,047 bits", public(n >> 1 | 1, f4), False)
    add(kind, "public", "2,049 bits", public(n << 1 | 1, f4), False)
    add(kind, "public", "a modulus of zero", public(0, f4), False)

    uneven, rest = prime(1364, 3), prime(684, 3)
    d = pow(3, -1, lcm(uneven - 1, rest - 1))
    assert (uneven * rest).bit_length() == 2048
    add(kind, "private", "primes of 1,364 and 684 bits", private(uneven * rest, 3, d, uneven, rest), False)
    add(kind, "public", "primes of 1,364 and 684 bits", public(uneven * rest, 3), True)
    d = pow(f4, -1, p * (p - 1))
    add(kind, "private", "a square", private(p * p, f4, d, p, p, inverse=1), False)

    a, b, c = prime(683, f4), prime(683, f4), prime(683, f4)
    n3 = a * b * c
    while n3.bit_length() != 2048:
        c = prime(683, f4)
        n3 = a * b * c
    d = pow(f4, -1, lcm(a - 1, b - 1, c - 1))
    third = sequence(sequence(integer(c), integer(d % (c - 1)), integer(pow(a * b, -1, c))))
    add(kind, "private", "three primes", private(n3, f4, d, a, b, version=1, rest=third), False)

    d = pow(f4, -1, order)
    whole = private_numbers(n, f4, d, p, q)
    no_null = sequence(oid(RSA_ENCRYPTION))
    add(kind, "private", "no NULL among the parameters", pkcs8(no_null, whole), False)
    add(kind, "public", "no NULL among the parameters", public(n, f4, no_null), False)
    other = sequence(oid(RSA_ENCRYPTION), octets(b""))
    add(kind, "private", "other parameters than NULL", pkcs8(other, whole), False)
    add(kind, "public", "other parameters than NULL", public(n, f4, other), False)
    pss = sequence(oid(RSASSA_PSS))
    add(kind, "private", "a key for PSS alone", pkcs8(pss, whole), False)
    add(kind, "public", "a key for PSS alone", public(n, f4, pss), False)
    add(kind, "private", "PKCS #1 without PKCS #8", whole, False)
    add(kind, "public", "PKCS #1 without SubjectPublicKeyInfo", sequence(integer(n), integer(f4)), False)
    add(kind, "public", "unused bits", spki(RSA, sequence(integer(n), integer(f4)), 1), False)
    add(kind, "public", "more behind the exponent", spki(RSA, sequence(integer(n), integer(f4), NULL)), False)
    add(kind, "public", "more behind the numbers", spki(RSA, sequence(integer(n), integer(f4)) + NULL), False)
    add(kind, "private", "more behind the numbers", pkcs8(RSA, whole + NULL), False)
    shapes(kind, RSA, whole)


def shapes(kind, algorithm, key):
    """PKCS #8 around a key that is sound: what RFC 5958 allows beyond RFC 5208's least, and what it does not."""
    attributes = element(0xA0, sequence(oid("2a864886f70d010914"), element(0x31, element(0x1E, b"\0x"))))
    add(kind, "private", "PKCS #8 as usual", pkcs8(algorithm, key), True)
    add(kind, "private", "attributes", pkcs8(algorithm, key, 0, attributes), True)
    add(kind, "private", "version 2", pkcs8(algorithm, key, 1), False)
    add(kind, "private", "version 2 with a public key", pkcs8(algorithm, key, 1, element(0x81, b"\0\1")), False)
    add(kind, "private", "version 3", pkcs8(algorithm, key, 2), False)
    add(kind, "private", "a NULL at the end", pkcs8(algorithm, key, 0, NULL), False)
    whole = pkcs8(algorithm, key)
    size = len(whole) - (4 if len(whole) > 259 else 3 if len(whole) > 129 else 2)
    body = whole[-size:]
    add(kind, "private", "an indefinite length", b"\x30\x80" + body + b"\0\0", False)
    add(kind, "private", "a length with a zero before it", b"\x30\x84" + size.to_bytes(4, "big") + body, False)
    add(kind, "private", "a version with a zero before it", element(0x30, b"\2\2\0\0", body[3:]), False)


# Elliptic curves


def spelled_out(curve, encoded):
    """ECParameters (RFC 3279, 2.3.5)."""
    if isinstance(curve, Prime):
        field = sequence(oid(PRIME_FIELD), integer(curve.p))
    else:
        basis, middle = (3, sequence(*map(integer, curve.middle))) if len(curve.middle) == 3 else (2, integer(*curve.middle))
        field = sequence(oid(BINARY_FIELD), sequence(integer(curve.m), oid(f"2a8648ce3d010203{basis:02x}"), middle))
    ab = sequence(*(octets((number % curve.beyond).to_bytes(curve.width, "big")) for number in (curve.a, curve.b)))
    return sequence(integer(1), field, ab, octets(encoded(4, *curve.base)), integer(curve.order), integer(1))


def curves(kind):
    name, curve = CURVES[kind]
    base, order, width = curve.base, curve.order, curve.width
    order_len = (order.bit_length() + 7) // 8
    foreign = next(curve[0] for other, curve in CURVES.items() if other != kind)
    algorithm = sequence(oid(EC_PUBLIC_KEY), oid(name))
    scalar = RNG.randrange(2, order)
    point = x, y = multiply(curve, scalar, base)
    bit = curve.bit(point)
    assert curve.has(point) and multiply(curve, order, base) is None

    def encoded(first, *coordinates):
        return bytes([first]) + b"".join(c.to_bytes(width, "big") for c in coordinates)

    uncompressed = encoded(4, x, y)
    for text, bytes_, taken in (
        ("uncompressed", uncompressed, True),
        ("compressed", encoded(2 + bit, x), True),
        ("compressed, the other sign", encoded(3 - bit, x), True),
        ("hybrid", encoded(6 + bit, x, y), False),
        ("hybrid, the other sign", encoded(7 - bit, x, y), False),
        ("at infinity", b"\0", False),
        ("zeros", encoded(4, 0, 0), False),
        ("off the curve", encoded(4, x, y ^ 1), False),
        ("x not reduced", encoded(4, curve.beyond, y), False),
        ("y not reduced", encoded(4, x, curve.beyond), False),
        ("cut short", uncompressed[:-1], False),
        ("a byte too long", uncompressed + b"\0", False),
        ("empty", b"", False),
    ):
        add(kind, "public", text, spki(algorithm, bytes_), taken)
    add(kind, "public", "unused bits", spki(algorithm, uncompressed[:-1] + bytes([uncompressed[-1] & 0xFE]), 1), False)
    if not isinstance(curve, Prime):
        second = curve.of_order_two()
        for text, bad in (("of order two", second), ("outside the subgroup", curve.plus(point, second))):
            add(kind, "public", text, spki(algorithm, encoded(4, *bad)), False)
            bad_bit = curve.bit(bad) if bad[0] else 0
            add(kind, "public", f"{text}, compressed", spki(algorithm, encoded(2 + bad_bit, bad[0])), False)
    explicit = sequence(oid(EC_PUBLIC_KEY), spelled_out(curve, encoded))
    add(kind, "public", "the curve spelled out", spki(explicit, uncompressed), False)
    add(kind, "public", "no curve", spki(sequence(oid(EC_PUBLIC_KEY)), uncompressed), False)
    add(kind, "public", "NULL for a curve", spki(sequence(oid(EC_PUBLIC_KEY), NULL), uncompressed), False)
    add(kind, "public", "more behind the curve", spki(sequence(oid(EC_PUBLIC_KEY), oid(name), NULL), uncompressed), False)

    def ec_private(number, length=order_len, parameters=None, public_key=None, version=1):
        parts = [integer(version), octets(number.to_bytes(length, "big"))]
        parts += [element(0xA0, oid(parameters))] if parameters else []
        parts += [element(0xA1, bits(public_key))] if public_key is not None else []
        return sequence(*parts)

    other = multiply(curve, scalar + 1, base)
    for text, key, taken in (
        ("scalar alone", ec_private(scalar), True),
        ("with the public key", ec_private(scalar, public_key=uncompressed), True),
        ("with the curve", ec_private(scalar, parameters=name), True),
        ("with both", ec_private(scalar, parameters=name, public_key=uncompressed), True),
        ("with another curve", ec_private(scalar, parameters=foreign, public_key=uncompressed), False),
        ("with another public key", ec_private(scalar, public_key=encoded(4, *other)), False),
        ("with a public key off the curve", ec_private(scalar, public_key=encoded(4, x, y ^ 1)), False),
        ("with a compressed public key", ec_private(scalar, public_key=encoded(2 + bit, x)), True),
        ("with an empty public key", ec_private(scalar, public_key=b""), False),
        ("scalar one", ec_private(1), True),
        ("the order less one", ec_private(order - 1), True),
        ("the order", ec_private(order), False),
        ("above the order", ec_private(order + 1), False),
        ("zero", ec_private(0), False),
        ("a byte too long", ec_private(scalar, order_len + 1), False),
        ("a byte too short", ec_private(scalar >> 8, order_len - 1), False),
        ("version 0", ec_private(scalar, version=0), False),
        ("version 2", ec_private(scalar, version=2), False),
    ):
        add(kind, "private", text, pkcs8(algorithm, key), taken)
    add(kind, "private", "the curve spelled out", pkcs8(explicit, ec_private(scalar)), False)
    add(kind, "private", "no curve", pkcs8(sequence(oid(EC_PUBLIC_KEY)), ec_private(scalar)), False)
    add(kind, "private", "the curve within alone",
        pkcs8(sequence(oid(EC_PUBLIC_KEY)), ec_private(scalar, parameters=name)), False)
    add(kind, "private", "RFC 5915 without PKCS #8", ec_private(scalar, parameters=name), False)
    add(kind, "private", "more behind the key", pkcs8(algorithm, ec_private(scalar) + NULL), False)
    shapes(kind, algorithm, ec_private(scalar))


# Diffie-Hellman (RFC 7919, appendix A)


def groups():
    for name, size, _, p in primes():
        q = (p - 1) // 2
        for text, exponent, taken in (("1", 1, True), ("q - 1", q - 1, True), ("q", q, False), ("q + 1", q + 1, False),
                                      ("p - 1", p - 1, False), ("p", p, False), ("0", 0, False)):
            add(name, "private", text, exponent.to_bytes(size // 8, "big"), taken)
            add(name, "private", f"{text}, a byte too long", exponent.to_bytes(size // 8 + 1, "big"), False)


def main():
    rsa()
    curves("p256")
    curves("p384")
    groups()
    for name in (*LEGACY, *LATER):
        curves(name)
    lines = ",\n".join("  " + json.dumps(key) for key in KEYS)
    OUT.write_text('{"source": "made by odd_keys.py", "keys": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
