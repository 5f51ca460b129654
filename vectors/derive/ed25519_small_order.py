"""The y coordinates of the points of edwards25519 whose order divides eight, as `core/contract/src/suite/acceptance.rs`
holds them: Rust byte arrays, little-endian. From the curve equation alone (RFC 8032, 5.1); needs nothing but Python."""

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def root(square):
    """A square root modulo P, or None (RFC 8032, 5.1.1)."""
    candidate = pow(square, (P + 3) // 8, P)
    for factor in (1, pow(2, (P - 1) // 4, P)):
        if candidate * factor * candidate * factor % P == square % P:
            return candidate * factor % P
    return None


def x_of(y):
    """An x of the point with this y, or None."""
    return root((y * y - 1) * pow(D * y * y + 1, -1, P) % P)


def double(point):
    x, y = point
    product = D * x * x * y * y % P
    return (
        2 * x * y * pow(1 + product, -1, P) % P,
        (y * y + x * x) * pow(1 - product, -1, P) % P,
    )


# Order 1 and 2: x = 0. Order 4: y = 0. Order 8: those whose double has y = 0, that is x^2 = -y^2, put into the curve
# equation: D y^4 + 2 y^2 - 1 = 0.
wide = root(1 + D)
eighth = sorted(
    y
    for square in ((-1 + wide) * pow(D, -1, P) % P, (-1 - wide) * pow(D, -1, P) % P)
    for y in [root(square)] if y is not None and x_of(y) is not None
    for y in (y, P - y)
)
ys = [1, P - 1, 0, *eighth]
points = {(x, y) for y in ys for x in (x_of(y), -x_of(y) % P)}
assert len(ys) == 5 and len(points) == 8
for point in points:
    assert double(double(double(point))) == (0, 1)

for y in ys:
    octets = [f"0x{octet:02x}" for octet in y.to_bytes(32, "little")]
    print("        [")
    for start in range(0, 32, 16):
        print("            " + ", ".join(octets[start:start + 16]) + ",")
    print("        ],")
