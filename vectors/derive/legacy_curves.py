#!/usr/bin/env python3
"""Makes the vectors of the legacy curves:

- nist/binary_curves.json: NIST CAVP's response files of ECDSA (FIPS 186-3), and its invalid public keys as peers of ECDH;
- rfc/ecdsa_binary.json: RFC 6979, A.2.8 to A.2.17, with the digests that the suites have;
- papers/gec_2.json: GEC 2 (Certicom Research 1999), 4.1, secp160r1;
- made/legacy_curves.json: ECDH and ECDSA by OpenSSL's command line, and peers that are not in the group, by curve_arithmetic.py.

The first two come from the wheel `cryptography_vectors` (PyPI). Signatures by OpenSSL come out different in every run.

    python3 vectors/derive/legacy_curves.py FOLDER/cryptography_vectors
"""

import base64
import json
import pathlib
import sys
import tempfile

from convert_cavp import DATA, case, records, write
from curve_arithmetic import LEGACY, multiply, named
from odd_keys import EC_PUBLIC_KEY, element, integer, octets, oid, pkcs8, sequence, spki
from openssl_vectors import VERSION, fixed_signature, stream
from test_keys import openssl

CURVES = {name: named(name) for name in LEGACY}
# SEC 2, A.2: what follows 1.3.132.0.
NUMBERS = {"secp160r1": 8, "sect163k1": 1, "sect163r1": 2, "sect163r2": 15, "sect233k1": 26, "sect233r1": 27,
           "sect283k1": 16, "sect283r1": 17, "sect409k1": 36, "sect409r1": 37, "sect571k1": 38, "sect571r1": 39}
NIST = {f"{letter}-{bits}": f"sect{bits}{'k1' if letter == 'K' else 'r2' if bits == 163 else 'r1'}"
        for letter in "KB" for bits in (163, 233, 283, 409, 571)}


def digest(name):
    return "sha384" if "409" in name else "sha512" if "571" in name else "sha256"


def algorithm(name):
    return sequence(oid(EC_PUBLIC_KEY), oid(f"2b8104{0:02x}{NUMBERS[name]:02x}"))


def order_len(name):
    return (CURVES[name].order.bit_length() + 7) // 8


def encoded(name, point):
    return b"\4" + b"".join(number.to_bytes(CURVES[name].width, "big") for number in point)


def public(name, point):
    return spki(algorithm(name), encoded(name, point)).hex()


def private(name, scalar):
    return pkcs8(algorithm(name), sequence(integer(1), octets(scalar.to_bytes(order_len(name), "big")))).hex()


def numbers(name, *values):
    return b"".join(value.to_bytes(order_len(name), "big") for value in values).hex()


def nist(root):
    folder, out = root / "asymmetric/ECDSA/FIPS_186-3", []
    value = lambda record, key: int(record[key], 16)
    point = lambda record: (value(record, "qx"), value(record, "qy"))
    for file, taken in (("SigGen.txt", 4), ("SigVer.rsp", 15)):
        counts = {}
        for section, r in records(folder / file, {"msg"}):
            label, _, hash_name = section["mode"].partition(",")
            name = NIST.get(label)
            if name is None or hash_name.lower().replace("-", "") != digest(name):
                continue
            at = counts[name] = counts.get(name, -1) + 1
            if at >= taken:
                continue
            fields = dict(public=public(name, point(r)), input=r["msg"], tag=numbers(name, value(r, "r"), value(r, "s")))
            if "d" in r:
                assert multiply(CURVES[name], value(r, "d"), CURVES[name].base) == point(r)
                fields["private"] = private(name, value(r, "d"))
            if r.get("result", "P").startswith("F"):
                fields["invalid"] = r["result"][3:].strip("() ")
            out.append(case(f"{file} {label} {at}", f"ecdsa-{name}", "decrypt", **fields))
    counts = {}
    for section, r in records(folder / "PKV.rsp", {"qx"}):
        name = NIST.get(section["mode"])
        if name is None:
            continue
        at = counts[name] = counts.get(name, -1) + 1
        if r["result"].startswith("F"):
            fields = dict(pair=name, input=encoded(name, point(r)).hex(), invalid=r["result"][3:].strip("() "))
            out.append(case(f"PKV.rsp {section['mode']} {at}", f"ecdh-{name}", "encrypt", **fields))
    write("nist/binary_curves.json", "NIST CAVP, ECDSA2VS (FIPS 186-3), SigGen, SigVer and PKV response files", out)


def rfc_6979(root):
    """The file has OpenSSL's form: keys in PEM, then operations that name them."""
    out, secrets = [], {}
    text = (root / "asymmetric/ECDSA/RFC6979/evppkey_ecdsa_rfc6979.txt").read_text()
    for block in text.split("\n\n"):
        lines = dict(line.split("=", 1) for line in block.splitlines() if "=" in line and not line.startswith("-"))
        lines = {key.strip(): text.strip() for key, text in lines.items()}
        if "PrivateKey" in lines:
            body = "".join(line for line in block.splitlines()[1:] if not line.startswith("-"))
            secrets[lines["PrivateKey"]] = base64.b64decode(body)
        name = NIST.get(lines.get("Key", "").removesuffix("_PRIV"))
        if name is None or lines.get("DigestSign", "").lower() != digest(name):
            continue
        der = secrets[lines["Key"]]
        length = order_len(name)
        scalar = int.from_bytes(der[der.index(b"\2\1\1\4" + bytes([length])) + 5 :][:length], "big")
        point = multiply(CURVES[name], scalar, CURVES[name].base)
        message = lines["Input"].strip('"').encode()
        out.append(case(f"{lines['Key'].removesuffix('_PRIV')} {message.decode()}", f"ecdsa-{name}", "decrypt",
                        private=private(name, scalar), public=public(name, point), input=message.hex(),
                        tag=fixed_signature(bytes.fromhex(lines["Output"]), length).hex()))
    assert len(out) == 2 * len(NIST)
    write("rfc/ecdsa_binary.json", "RFC 6979, A.2.8 to A.2.17", out)


def gec_2():
    name = "secp160r1"
    curve = CURVES[name]
    u, v = 0xAA374FFC3CE144E6B073307972CB6D57B2A4E982, 0x45FB58A92A17AD4B15101C66E74F277E2B460866
    points = [multiply(curve, scalar, curve.base) for scalar in (u, v)]
    assert [point[0] for point in points] == [0x51B4496FECC406ED0E75A24A3C03206251419DC0, 0x49B41E0E9C0369C2328739D90F63D56707C6E5BC]
    secret = "ca7c0f8c3ffa87a96e1b74ac8e6af594347bb40a"
    out = [case(f"4.1 {who}", f"ecdh-{name}", "encrypt", private=private(name, own), input=encoded(name, peer).hex(), output=secret)
           for who, own, peer in (("U", u, points[1]), ("V", v, points[0]))]
    write("papers/gec_2.json", "Certicom Research, GEC 2: Test Vectors for SEC 1, 0.3 (1999)", out)


def made(folder):
    keys, out = json.loads((DATA / "keys.json").read_text())["keys"], []
    for name in LEGACY:
        curve = CURVES[name]
        own, peer = (key for key in keys if key["name"] == name)
        own_file, peer_file = folder / "own.der", folder / "peer.der"
        own_file.write_bytes(bytes.fromhex(own["private"]))
        peer_file.write_bytes(bytes.fromhex(peer["public"]))
        for length in (0, 77):
            message = stream(name, length)
            der = openssl("dgst", f"-{digest(name)}", "-sign", str(own_file), "-keyform", "DER", "-binary", data=message)
            out.append(case(f"ecdsa-{name} {length}", f"ecdsa-{name}", "decrypt", pair=name, input=message.hex(),
                            tag=fixed_signature(der, order_len(name)).hex()))
        secret = openssl("pkeyutl", "-derive", "-inkey", str(own_file), "-keyform", "DER", "-peerkey", str(peer_file), "-peerform", "DER")
        value = bytes.fromhex(peer["public"])[-1 - 2 * curve.width :]
        fields = dict(pair=name)
        out.append(case(f"ecdh-{name}", f"ecdh-{name}", "encrypt", input=value.hex(), output=secret.hex(), **fields))
        point = tuple(int.from_bytes(half, "big") for half in (value[1 : 1 + curve.width], value[1 + curve.width :]))
        off = (point[0], point[1] ^ 1)
        wrong = [("off the curve", off), ("zeros", (0, 0))]
        if name != "secp160r1":
            second = curve.of_order_two()
            wrong += [("of order two", second), ("outside the subgroup", curve.plus(point, second))]
            assert all(curve.has(bad) for _, bad in wrong[2:])
        for why, bad in wrong:
            out.append(case(f"ecdh-{name} peer {why}", f"ecdh-{name}", "encrypt", input=encoded(name, bad).hex(),
                            invalid="the peer's point is not in the group", **fields))
    write("made/legacy_curves.json", f"made by legacy_curves.py with OpenSSL {VERSION}", out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    nist(root)
    rfc_6979(root)
    gec_2()
    with tempfile.TemporaryDirectory() as folder:
        made(pathlib.Path(folder))


if __name__ == "__main__":
    main()
