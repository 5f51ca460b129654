"""Curves and their arithmetic, for scripts that make vectors: written apart from every engine, affine, slow. Parameters are
OpenSSL's."""

import re
import subprocess

LEGACY = ("secp160r1", "sect163k1", "sect163r1", "sect163r2", "sect233k1", "sect233r1", "sect283k1", "sect283r1",
          "sect409k1", "sect409r1", "sect571k1", "sect571r1")


class Prime:
    """y^2 = x^3 + a x + b modulo p."""

    def __init__(self, p, a, b, base, order):
        self.p, self.a, self.b, self.base, self.order = p, a, b, base, order
        self.width = (p.bit_length() + 7) // 8
        self.beyond = p

    def has(self, point):
        x, y = point
        return (y * y - x**3 - self.a * x - self.b) % self.p == 0

    def bit(self, point):
        """What stands for y in a compressed point."""
        return point[1] % 2

    def plus(self, left, right):
        if left is None or right is None:
            return left or right
        (x1, y1), (x2, y2) = left, right
        if x1 == x2 and (y1 + y2) % self.p == 0:
            return None
        slope = (3 * x1 * x1 + self.a) * pow(2 * y1, -1, self.p) if left == right else (y2 - y1) * pow(x2 - x1, -1, self.p)
        x = (slope * slope - x1 - x2) % self.p
        return x, (slope * (x1 - x) - y1) % self.p


class Binary:
    """y^2 + x y = x^3 + a x^2 + b, numbers being polynomials modulo one of degree m."""

    def __init__(self, m, middle, a, b, base, order):
        self.m, self.middle = m, middle
        self.polynomial = 1 << m | sum(1 << k for k in middle) | 1
        self.a, self.b, self.base, self.order = a, b, base, order
        self.width = (m + 7) // 8
        self.beyond = 1 << m

    def times(self, left, right):
        product = 0
        while right:
            product ^= left if right & 1 else 0
            left <<= 1
            left ^= self.polynomial if left >> self.m else 0
            right >>= 1
        return product

    def inverse(self, number):
        """Extended Euclid."""
        u, v, g, h = number, self.polynomial, 1, 0
        while u != 1:
            shift = u.bit_length() - v.bit_length()
            if shift < 0:
                u, v, g, h, shift = v, u, h, g, -shift
            u, g = u ^ v << shift, g ^ h << shift
        return g

    def root(self, number):
        for _ in range(self.m - 1):
            number = self.times(number, number)
        return number

    def has(self, point):
        x, y = point
        square = self.times(x, x)
        return self.times(y, y) ^ self.times(x, y) ^ self.times(square, x) ^ self.times(self.a, square) ^ self.b == 0

    def bit(self, point):
        return self.times(point[1], self.inverse(point[0])) & 1

    def plus(self, left, right):
        if left is None or right is None:
            return left or right
        (x1, y1), (x2, y2) = left, right
        if x1 == x2 and (y1 != y2 or x1 == 0):
            return None
        slope = x1 ^ self.times(y1, self.inverse(x1)) if left == right else self.times(y1 ^ y2, self.inverse(x1 ^ x2))
        x = self.times(slope, slope) ^ slope ^ x1 ^ x2 ^ self.a
        return x, self.times(slope, x1 ^ x) ^ x ^ y1

    def of_order_two(self):
        return 0, self.root(self.b)


def multiply(curve, scalar, point):
    total = None
    for bit in bin(scalar)[2:]:
        total = curve.plus(total, total)
        total = curve.plus(total, point) if bit == "1" else total
    return total


def named(name):
    """A curve by its parameters as OpenSSL spells them out (RFC 3279, 2.3.5)."""
    der = subprocess.run(("openssl", "ecparam", "-name", name, "-param_enc", "explicit", "-outform", "DER"),
                         capture_output=True, check=True).stdout
    text = subprocess.run(("openssl", "asn1parse", "-inform", "DER"), input=der, capture_output=True, check=True).stdout.decode()
    integers = [int(number, 16) for number in re.findall(r"INTEGER\s+:([0-9A-F]+)", text)]
    a, b, base = re.findall(r"HEX DUMP\]:([0-9A-F]+)", text)
    coordinates = base[2:]
    half = len(coordinates) // 2
    point = int(coordinates[:half], 16), int(coordinates[half:], 16)
    order = integers[-2]
    if not name.startswith("sect"):
        return Prime(integers[1], int(a, 16), int(b, 16), point, order)
    return Binary(integers[1], integers[2:-2], int(a, 16), int(b, 16), point, order)
