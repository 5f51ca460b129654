#!/usr/bin/env python3
"""Makes vectors/data/keys.json: key pairs for tests and known answers. They are public; protect nothing with them.

RSA, elliptic-curve, X25519, X448 and Ed25519 keys come from the OpenSSL command line; the groups of Diffie-Hellman are
computed (dh_primes.py) and compared with OpenSSL's; ML-KEM and ML-DSA seeds with their public keys are those of the
post-quantum KAT files within the wheel `cryptography_vectors`:

    python3 vectors/derive/test_keys.py FOLDER/cryptography_vectors

Pairs that the file has already stay. Where it is deleted before, vectors/data/made has to be made again (openssl_vectors.py).
"""

import json
import pathlib
import secrets
import subprocess
import sys

from curve_arithmetic import LEGACY
from dh_primes import primes

DATA = pathlib.Path(__file__).parents[1] / "data"


def openssl(*arguments, data=b""):
    return subprocess.run(("openssl",) + arguments, input=data, capture_output=True, check=True).stdout


def pair(*arguments):
    """A new key pair as PKCS#8 and SubjectPublicKeyInfo DER."""
    pem = openssl("genpkey", *arguments)
    private = openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER", data=pem)
    public = openssl("pkey", "-pubout", "-outform", "DER", data=pem)
    return private, public


# Bytes of exponents: twice the strength at least that RFC 7919, appendix A, and RFC 3526, 8 (second estimate), ascribe to a
# group; RFC 2409 says nothing of it.
EXPONENT_LEN = {
    "ffdhe2048": 32, "ffdhe3072": 40, "ffdhe4096": 48,
    "modp1024": 20, "modp1536": 30, "modp2048": 40, "modp3072": 53, "modp4096": 60, "modp6144": 68, "modp8192": 78,
}  # fmt: skip


def exponent_pair(name, bits, prime):
    """A new exponent and its public value. OpenSSL has no name for the group of 1,024 bits."""
    if name != "modp1024":
        group = name.replace("modp", "modp_")
        theirs = openssl("genpkey", "-algorithm", "DH", "-pkeyopt", f"group:{group}", "-outform", "DER")
        assert prime.to_bytes(bits // 8, "big") in theirs, f"{name} differs from OpenSSL's"
    exponent = secrets.token_bytes(EXPONENT_LEN[name])
    return exponent, pow(2, int.from_bytes(exponent, "big"), prime).to_bytes(bits // 8, "big")


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
    path, keys = DATA / "keys.json", []
    before = json.loads(path.read_text())["keys"] if path.exists() else []

    def add(name, make):
        """The pairs of a name that there are, or two new ones."""
        pairs = [(k["private"], k["public"]) for k in before if k["name"] == name]
        pairs = pairs or [tuple(half.hex() for half in pair) for pair in make()]
        keys.extend({"name": name, "private": private, "public": public} for private, public in pairs)

    for bits in (1024, 2048, 3072, 4096):
        options = ("-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}")
        add(f"rsa-{bits}", lambda: [pair(*options) for _ in range(2)])
    for curve in ("P-256", "P-384", "P-521"):
        options = ("-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-pkeyopt", "ec_param_enc:named_curve")
        add(curve.lower().replace("-", ""), lambda: [pair(*options) for _ in range(2)])
    for curve in (*LEGACY, "secp256k1", "P-224", "brainpoolP256r1", "brainpoolP384r1"):
        options = ("-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-pkeyopt", "ec_param_enc:named_curve")
        add(curve.lower().replace("-", ""), lambda: [pair(*options) for _ in range(2)])
    for name, width in (("X25519", 32), ("X448", 56), ("ED25519", 32)):
        add(name.lower(), lambda: [[half[-width:] for half in pair("-algorithm", name)] for _ in range(2)])
    for name, bits, _, prime in primes():
        add(name, lambda: [exponent_pair(name, bits, prime) for _ in range(2)])
    for size in ("512", "768", "1024"):
        records = wheel / f"asymmetric/MLKEM/kat_MLKEM_{size}.rsp"
        add(f"ml-kem-{size}", lambda: [(r["d"] + r["z"], r["pk"]) for r in kat(records, ("d", "z", "pk"))])
    for size in ("44", "65", "87"):
        records = wheel / f"asymmetric/MLDSA/kat_MLDSA_{size}_det_pure.rsp"
        add(f"ml-dsa-{size}", lambda: [(r["xi"], r["pk"]) for r in kat(records, ("xi", "pk"))])
    version = openssl("version").decode().split()[1].rpartition(".")[0]
    source = f"test keys, public and worthless: OpenSSL {version}, RFC 7919, RFC 3526, post-quantum-cryptography/KAT"
    lines = ",\n".join("  " + json.dumps(key) for key in keys)
    path.write_text('{"source": ' + json.dumps(source) + ', "keys": [\n' + lines + "\n]}\n")
    print(f"keys.json: {len(keys)} pairs")


if __name__ == "__main__":
    main()
