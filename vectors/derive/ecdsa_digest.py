#!/usr/bin/env python3
"""Makes the vectors of ECDSA over given digests:

- rfc/ecdsa_digest.json: RFC 6979, A.2.4 to A.2.7: messages there, their digests here, which Python's hashlib makes;
- made/ecdsa_digest.json: by OpenSSL's command line, digests of other lengths, of zeros and of ones, and damaged ones.

The first comes from the wheel `cryptography_vectors` (PyPI). Signatures by OpenSSL come out different in every run.

    python3 vectors/derive/ecdsa_digest.py FOLDER/cryptography_vectors
"""

import hashlib
import json
import pathlib
import sys
import tempfile

from convert_cavp import DATA, case, write
from openssl_vectors import VERSION, fixed_signature, stream
from test_keys import openssl

CURVES = {"P-256": ("p256", 32), "P-384": ("p384", 48), "P-521": ("p521", 66)}
# What OpenSSL signs with this one, openssl_vectors.py has.
PUBLISHED = {"P-224": ("p224", 28), **CURVES}


def rfc_6979(root):
    """The file has OpenSSL's form: keys in PEM, then operations that name them."""
    out, keys = [], {}
    text = (root / "asymmetric/ECDSA/RFC6979/evppkey_ecdsa_rfc6979.txt").read_text()
    for block in text.split("\n\n"):
        lines = dict(line.split("=", 1) for line in block.splitlines() if "=" in line and not line.startswith("-"))
        lines = {key.strip(): text.strip() for key, text in lines.items()}
        if "PrivateKey" in lines:
            keys[lines["PrivateKey"]] = "\n".join(block.splitlines()[1:]).encode() + b"\n"
        curve = lines.get("Key", "").removesuffix("_PRIV")
        if curve not in PUBLISHED or "DigestSign" not in lines:
            continue
        name, width = PUBLISHED[curve]
        private = openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER", data=keys[lines["Key"]])
        public = openssl("pkey", "-pubout", "-outform", "DER", data=keys[lines["Key"]])
        message, digest = lines["Input"].strip('"'), lines["DigestSign"].lower()
        out.append(case(f"{curve} {digest} {message}", f"ecdsa-{name}-digest", "decrypt", private=private.hex(), public=public.hex(),
                        input=hashlib.new(digest, message.encode()).hexdigest(),
                        tag=fixed_signature(bytes.fromhex(lines["Output"]), width).hex()))
    assert len(out) == 4 * 5 * 2
    write("rfc/ecdsa_digest.json", "RFC 6979, A.2.4 to A.2.7", out)


def made(folder):
    out = []
    for name, width in CURVES.values():
        suite = f"ecdsa-{name}-digest"
        own = next(k for k in json.loads((DATA / "keys.json").read_text())["keys"] if k["name"] == name)
        private, digest_file = folder / "private.der", folder / "digest"
        private.write_bytes(bytes.fromhex(own["private"]))
        digests = {f"{len(digest)} {what}": digest for what, digest in
                   [("bytes", stream(f"{suite} {length}", length)) for length in (*range(20, 65, 4), 21, 31, 33, 47, 49, 63)]
                   + [(what, bytes([byte]) * length) for what, byte in (("zeros", 0), ("ones", 0xFF)) for length in (20, 32, 48, 64)]}
        for what, digest in digests.items():
            digest_file.write_bytes(digest)
            der = openssl("pkeyutl", "-sign", "-inkey", str(private), "-keyform", "DER", "-in", str(digest_file))
            fields = dict(pair=name, tag=fixed_signature(der, width).hex())
            out.append(case(f"{suite} {what}", suite, "decrypt", input=digest.hex(), **fields))
            # Of a longer digest than the order only the leftmost bits count (FIPS 186-5, 6.4.1, step 2).
            for place, at in (("first", 0), ("last", len(digest) - 1)):
                other = bytearray(digest)
                other[at] ^= 1
                verdict = {} if at >= width else {"invalid": "another digest"}
                out.append(case(f"{suite} {what}, another {place} byte", suite, "decrypt", input=other.hex(), **fields, **verdict))
    write("made/ecdsa_digest.json", f"made by ecdsa_digest.py with OpenSSL {VERSION}", out)


if __name__ == "__main__":
    rfc_6979(pathlib.Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        made(pathlib.Path(folder))
