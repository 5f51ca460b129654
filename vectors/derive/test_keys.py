#!/usr/bin/env python3
"""Makes vectors/data/keys.json: key pairs for tests and known answers. They are public; protect nothing with them.

RSA, elliptic-curve, X25519 and Ed25519 keys come from the OpenSSL command line; the groups of RFC 7919 are computed
here and compared with OpenSSL's; ML-KEM and ML-DSA seeds with their public keys are those of the post-quantum KAT
files within the wheel `cryptography_vectors`:

    python3 vectors/derive/test_keys.py FOLDER/cryptography_vectors

Every run makes new keys, so that a second run means making vectors/data/made again (openssl_vectors.py).
"""

import json
import pathlib
import secrets
import subprocess
import sys

from curve_arithmetic import LEGACY

DATA = pathlib.Path(__file__).parents[1] / "data"


def openssl(*arguments, data=b""):
    return subprocess.run(("openssl",) + arguments, input=data, capture_output=True, check=True).stdout


def pair(*arguments):
    """A new key pair as PKCS#8 and SubjectPublicKeyInfo DER."""
    pem = openssl("genpkey", *arguments)
    private = openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER", data=pem)
    public = openssl("pkey", "-pubout", "-outform", "DER", data=pem)
    return private, public


def euler(bits):
    """floor(2^bits * e), by the series with room to spare."""
    whole, term, n = 0, 1 << (bits + 64), 0
    while term:
        whole += term
        n += 1
        term //= n
    return whole >> 64


def ffdhe(bits, addend):
    """The prime of RFC 7919, appendix A."""
    return 2**bits - 2 ** (bits - 64) + (euler(bits - 130) + addend) * 2**64 - 1


def kat(path, names):
    """The first two records' values of these names."""
    found = []
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" = ")
        if name == "count":
            if len(found) == 2:
                break
            found.append({})
        elif name in names:
            found[-1][name] = bytes.fromhex(value)
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = pathlib.Path(sys.argv[1])
    keys = []

    def add(name, private, public):
        keys.append({"name": name, "private": private.hex(), "public": public.hex()})

    for bits in (1024, 2048, 3072, 4096):
        for _ in range(2):
            add(f"rsa-{bits}", *pair("-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}"))
    for curve in ("P-256", "P-384", "P-521"):
        for _ in range(2):
            add(curve.lower().replace("-", ""), *pair("-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}",
                                                      "-pkeyopt", "ec_param_enc:named_curve"))
    for curve in LEGACY:
        for _ in range(2):
            add(curve, *pair("-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-pkeyopt",
                             "ec_param_enc:named_curve"))
    for name in ("X25519", "ED25519"):
        for _ in range(2):
            private, public = pair("-algorithm", name)
            add(name.lower(), private[-32:], public[-32:])
    for bits, addend, exponent_len in ((2048, 560316, 32), (3072, 2625351, 40), (4096, 5736041, 48)):
        prime = ffdhe(bits, addend)
        theirs = openssl("genpkey", "-algorithm", "DH", "-pkeyopt", f"group:ffdhe{bits}", "-outform", "DER")
        assert prime.to_bytes(bits // 8, "big") in theirs, f"ffdhe{bits} differs from OpenSSL's"
        for _ in range(2):
            exponent = secrets.token_bytes(exponent_len)
            public = pow(2, int.from_bytes(exponent, "big"), prime)
            add(f"ffdhe{bits}", exponent, public.to_bytes(bits // 8, "big"))
    for size in ("512", "768", "1024"):
        for r in kat(wheel / f"asymmetric/MLKEM/kat_MLKEM_{size}.rsp", ("d", "z", "pk")):
            add(f"ml-kem-{size}", r["d"] + r["z"], r["pk"])
    for size in ("44", "65", "87"):
        for r in kat(wheel / f"asymmetric/MLDSA/kat_MLDSA_{size}_det_pure.rsp", ("xi", "pk")):
            add(f"ml-dsa-{size}", r["xi"], r["pk"])
    version = openssl("version").decode().split()[1]
    source = f"test keys, public and worthless: OpenSSL {version}, RFC 7919, post-quantum-cryptography/KAT"
    lines = ",\n".join("  " + json.dumps(key) for key in keys)
    (DATA / "keys.json").write_text('{"source": ' + json.dumps(source) + ', "keys": [\n' + lines + "\n]}\n")
    print(f"keys.json: {len(keys)} pairs")


if __name__ == "__main__":
    main()
