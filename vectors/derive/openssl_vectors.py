#!/usr/bin/env python3
"""Makes vectors/data/made: vectors for suites that no published document covers, from tools apart from our engines.

OpenSSL's command line and library (through ctypes) encrypt and sign, Python's standard library authenticates, and
BLAKE3 is written out below. Chains are put together here from cipher and MAC as RFC 4303, RFC 7366 and RFC 5246 say. Signatures
and encryptions with random padding come out different in every run.

    python3 vectors/derive/openssl_vectors.py BLAKE3/test_vectors/test_vectors.json

The argument is the file of that name in the repository BLAKE3-team/BLAKE3.
"""

import ctypes
import hashlib
import hmac
import json
import pathlib
import subprocess
import sys
import tempfile

import khufu_khafre
from convert_cavp import DATA, case, write
from dh_primes import primes
from test_keys import openssl

LIBCRYPTO = ctypes.CDLL("libcrypto.so.3")
VERSION = openssl("version").decode().split()[1]
CHAIN_CIPHERS = {"des-cbc": (8, 8), "3des-cbc": (24, 8), "aes-128-cbc": (16, 16), "aes-192-cbc": (24, 16),
                 "aes-256-cbc": (32, 16), "aes-128-ctr": (16, 16), "aes-192-ctr": (24, 16), "aes-256-ctr": (32, 16)}
CHAIN_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def stream(label, length):
    """Bytes that look random and are the same in every run."""
    out = b""
    while len(out) < length:
        out += hashlib.sha256(f"{label} {len(out)}".encode()).digest()
    return out[:length]


def encrypt(name, key, iv, data):
    if not data:
        return b""
    name = {"3des-cbc": "des-ede3-cbc", "blowfish-ecb": "bf-ecb", "blowfish-cbc": "bf-cbc"}.get(name, name)
    if name.startswith("bf") and len(key) != 16:
        raise ValueError("OpenSSL's enc takes 16-byte Blowfish keys")
    iv = ("-iv", iv.hex()) if iv else ()
    return openssl("enc", "-provider", "legacy", "-provider", "default", f"-{name}", "-K", key.hex(), *iv, "-nopad", data=data)


def chains():
    out = []
    for cipher, (key_len, block) in CHAIN_CIPHERS.items():
        for digest in CHAIN_DIGESTS:
            out += encrypt_then_mac(cipher, key_len, block, digest) + mac_then_encrypt(cipher, key_len, block, digest)
    write("made/chains.json", f"made by openssl_vectors.py with OpenSSL {VERSION} and Python's hmac, after RFC 4303, RFC 7366 and RFC 5246", out)


def encrypt_then_mac(cipher, key_len, block, digest):
    """The tag covers additional data, IV and ciphertext (RFC 4303, 2.8; RFC 7366, 3)."""
    suite = f"{cipher}+hmac-{digest}"
    full = hashlib.new(digest).digest_size
    lengths = [
        (32, 8, full, full, block),
        (0, 13, 16, full, block),
        (80 if cipher.endswith("cbc") else 77, 0, 150, full, block),
        (48, 20, full, 12, block),
        (64, 70, full, full, block),
    ]
    if cipher.endswith("ctr"):
        lengths.append((50, 8, full, full, 12))
    out = []
    for at, (length, aad_len, mac_key_len, tag_len, iv_len) in enumerate(lengths):
        label = f"{suite} {at}"
        key, mac_key = stream(label + " key", key_len), stream(label + " mac", mac_key_len)
        iv, aad, plain = stream(label + " iv", iv_len), stream(label + " aad", aad_len), stream(label, length)
        # Twelve bytes are a nonce before a counter that starts at one (RFC 3686).
        coded = encrypt(cipher, key, iv if iv_len == block else iv + bytes([0, 0, 0, 1]), plain)
        tag = hmac.new(mac_key, aad + iv + coded, digest).digest()[:tag_len]
        fields = dict(key=(key + mac_key).hex(), iv=iv.hex(), aad=aad.hex())
        out.append(case(label, suite, input=plain.hex(), output=coded.hex(), tag=tag.hex(), **fields))
        wrong = bytes([tag[0] ^ 1]) + tag[1:]
        without = hmac.new(mac_key, aad + coded, digest).digest()[:tag_len]
        for name, bad, why in (("wrong tag", wrong, "the tag is wrong"), ("no IV", without, "the tag does not cover the IV")):
            out.append(case(f"{label} {name}", suite, "decrypt", output=coded.hex(), tag=bad.hex(), invalid=why, **fields))
    return out


def mac_then_encrypt(cipher, key_len, block, digest):
    """RFC 5246, 6.2.3: MAC over sequence number, type, version, length, fragment; padding of n + 1 bytes n."""
    suite = f"hmac-{digest}+{cipher}"
    padded = cipher.endswith("cbc")
    full = hashlib.new(digest).digest_size
    out = []
    for at, length in enumerate((37, 0, 129)):
        label = f"{suite} {at}"
        key, mac_key = stream(label + " key", key_len), stream(label + " mac", full)
        iv, aad, plain = stream(label + " iv", block), stream(label + " aad", 11), stream(label, length)
        tag = hmac.new(mac_key, aad + length.to_bytes(2, "big") + plain, digest).digest()
        fields = dict(key=(key + mac_key).hex(), iv=iv.hex(), aad=aad.hex())

        def record(body, extra=0, spoil=None):
            if padded:
                count = -(len(body) + 1) % block + extra * block
                padding = bytearray([count] * (count + 1))
                if spoil is not None and spoil < len(padding):
                    padding[spoil] ^= 0x80
                body += bytes(padding)
            return encrypt(cipher, key, iv, body).hex()

        out.append(case(label, suite, input=plain.hex(), output=record(plain + tag), **fields))
        wrong = bytes([tag[0] ^ 1]) + tag[1:]
        out.append(case(label + " wrong MAC", suite, "decrypt", output=record(plain + wrong), invalid="the MAC is wrong", **fields))
        if padded:
            most = (255 - (-(length + full + 1) % block)) // block
            out.append(case(label + " longest padding", suite, "decrypt", input=plain.hex(), output=record(plain + tag, most), **fields))
            out.append(case(label + " wrong padding", suite, "decrypt", output=record(plain + tag, 1, 0), invalid="a padding byte is wrong", **fields))
    return out


def rsa(keys, folder):
    out = []
    for bits in (1024, 2048, 3072, 4096):
        key = next(k for k in keys if k["name"] == f"rsa-{bits}")
        private, public = folder / "private.der", folder / "public.der"
        private.write_bytes(bytes.fromhex(key["private"]))
        public.write_bytes(bytes.fromhex(key["public"]))
        pair = dict(pair=key["name"])
        for digest in ("sha1", "sha256", "sha384", "sha512"):
            for padding, options in (("pkcs1", ()), ("pss", ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"))):
                if (bits, digest, padding) == (1024, "sha512", "pss"):
                    continue
                suite = f"rsa-{bits}-sign-{padding}-{digest}"
                for length in (0, 77):
                    message = stream(suite, length)
                    signed = openssl("dgst", f"-{digest}", "-sign", str(private), "-keyform", "DER", *options, "-binary", data=message)
                    out.append(case(f"{suite} {length}", suite, "both" if padding == "pkcs1" else "decrypt", **pair, input=message.hex(), tag=signed.hex()))
        for suite, overhead, options in (
            (f"rsa-{bits}-encrypt-pkcs1", 11, ("-pkeyopt", "rsa_padding_mode:pkcs1")),
            (f"rsa-{bits}-encrypt-oaep-sha1", 42, ("-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha1")),
            (f"rsa-{bits}-encrypt-oaep-sha256", 66, ("-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256")),
        ):
            for length in (32, bits // 8 - overhead):
                message = stream(suite, length)
                coded = openssl("pkeyutl", "-encrypt", "-pubin", "-inkey", str(public), "-keyform", "DER", *options, data=message)
                out.append(case(f"{suite} {length}", suite, "decrypt", **pair, input=message.hex(), output=coded.hex()))
    write("made/rsa.json", f"made by openssl_vectors.py with OpenSSL {VERSION}", out)


def rsa_raw(keys, folder):
    """Numbers raised to the public exponent; the largest come from the modulus, which `openssl rsa` prints."""
    out = []
    for bits in (1024, 2048, 3072, 4096):
        key = next(k for k in keys if k["name"] == f"rsa-{bits}")
        public = folder / "public.der"
        public.write_bytes(bytes.fromhex(key["public"]))
        printed = openssl("rsa", "-pubin", "-inform", "DER", "-in", str(public), "-noout", "-modulus")
        modulus, width = int(printed.split(b"=")[1], 16), bits // 8
        suite = f"rsa-{bits}-raw"
        random = int.from_bytes(stream(suite, width), "big") % modulus
        for what, number in (("random", random), ("zero", 0), ("one", 1), ("two", 2), ("modulus less one", modulus - 1)):
            data = number.to_bytes(width, "big")
            raised = openssl("pkeyutl", "-encrypt", "-pubin", "-inkey", str(public), "-keyform", "DER",
                             "-pkeyopt", "rsa_padding_mode:none", data=data)
            out.append(case(f"{suite} {what}", suite, pair=key["name"], input=data.hex(), output=raised.hex()))
        for what, number in (("modulus", modulus), ("all ones", (1 << bits) - 1)):
            data = number.to_bytes(width, "big").hex()
            out.append(case(f"{suite} {what}", suite, "encrypt", pair=key["name"], input=data, invalid="not below the modulus"))
            out.append(case(f"{suite} {what} decrypted", suite, "decrypt", pair=key["name"], output=data, invalid="not below the modulus"))
    write("made/rsa_raw.json", f"made by openssl_vectors.py with OpenSSL {VERSION}", out)


def fixed_signature(der, width):
    """`r ‖ s` of an ECDSA signature in DER."""
    at = 3 if der[1] & 0x80 else 2
    parts = b""
    for _ in range(2):
        length = der[at + 1]
        value = int.from_bytes(der[at + 2 : at + 2 + length], "big")
        parts += value.to_bytes(width, "big")
        at += 2 + length
    return parts


def curve(keys, folder, name, width, digest):
    """Signatures of messages and one agreement. The private key stays in the folder."""
    out = []
    own, peer = (k for k in keys if k["name"] == name)
    private, public = folder / "private.der", folder / "public.der"
    private.write_bytes(bytes.fromhex(own["private"]))
    public.write_bytes(bytes.fromhex(peer["public"]))
    for length in (0, 77):
        message = stream(name, length)
        der = openssl("dgst", f"-{digest}", "-sign", str(private), "-keyform", "DER", "-binary", data=message)
        out.append(case(f"ecdsa-{name} {length}", f"ecdsa-{name}", "decrypt", pair=name, input=message.hex(),
                        tag=fixed_signature(der, width).hex()))
    secret = openssl("pkeyutl", "-derive", "-inkey", str(private), "-keyform", "DER", "-peerkey", str(public), "-peerform", "DER")
    point = peer["public"][-2 * (2 * width + 1) :]
    return out + [case(f"ecdh-{name}", f"ecdh-{name}", "encrypt", pair=name, input=point, output=secret.hex())]


def curve_and_digests(keys, folder, name, width, digest):
    """The same and signatures of given digests, in a file of the curve's name."""
    out = curve(keys, folder, name, width, digest)
    for length in sorted({20, 21, width - 1, width, width + 1, 48, 64}):
        given = stream(f"{name} digest", length)
        der = openssl("pkeyutl", "-sign", "-inkey", str(folder / "private.der"), "-keyform", "DER", data=given)
        out.append(case(f"ecdsa-{name}-digest {length}", f"ecdsa-{name}-digest", "decrypt", pair=name, input=given.hex(),
                        tag=fixed_signature(der, width).hex()))
    write(f"made/{name}.json", f"made by openssl_vectors.py with OpenSSL {VERSION}", out)


def curves(keys, folder):
    out = []
    for name, width, digest in (("p256", 32, "sha256"), ("p384", 48, "sha384"), ("p521", 66, "sha512")):
        out += curve(keys, folder, name, width, digest)
    for name, bits, _, prime in primes():
        if name.startswith("ffdhe"):
            out += finite_field(keys, name, bits, prime)
    write("made/agreement.json", f"made by openssl_vectors.py with OpenSSL {VERSION} and Python's integers", out)


def finite_field(keys, name, bits, prime):
    """Agreement in one group, by Python's integers."""
    own, peer = (k for k in keys if k["name"] == name)
    secret = pow(int(peer["public"], 16), int(own["private"], 16), prime)
    assert secret == pow(int(own["public"], 16), int(peer["private"], 16), prime)
    fields, suite = dict(pair=name), f"dh-{name}"
    out = [case(suite, suite, "encrypt", input=peer["public"], output=secret.to_bytes(bits // 8, "big").hex(), **fields)]
    # NIST SP 800-56A, 5.6.2.3.1: a public value is between 2 and p - 2, and lies in the group of order q. In groups
    # over safe primes the range alone may do (5.6.2.3.2).
    outside = next(v for v in range(2, 99) if pow(v, (prime - 1) // 2, prime) != 1)
    for label, value in (("0", 0), ("1", 1), ("p - 1", prime - 1), ("p", prime), ("not in the group", outside)):
        verdict = "acceptable" if value == outside else "invalid"
        shared = pow(value, int(own["private"], 16), prime) if value == outside else None
        output = shared.to_bytes(bits // 8, "big").hex() if shared else ""
        out.append(case(f"{suite} peer {label}", suite, "encrypt", input=value.to_bytes(bits // 8, "big").hex(),
                        output=output, **{verdict: "the peer's value is not in the group"}, **fields))
    return out


def dh_modp(keys):
    out = [c for name, bits, _, prime in primes() if name.startswith("modp") for c in finite_field(keys, name, bits, prime)]
    write("made/dh_modp.json", "made by openssl_vectors.py with Python's integers", out)


def aead(name, key, nonce, aad, plain, tag_len=16):
    """An AEAD by OpenSSL's library, which its command line does not offer."""
    lib = LIBCRYPTO
    lib.EVP_CIPHER_CTX_new.restype = ctypes.c_void_p
    lib.EVP_CIPHER_fetch.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
    cipher = ctypes.c_void_p(lib.EVP_CIPHER_fetch(None, name.encode(), None))
    assert lib.EVP_EncryptInit_ex(context, cipher, None, None, None) == 1
    assert lib.EVP_CIPHER_CTX_ctrl(context, 9, len(nonce), None) == 1
    # The length of OCB's tag is a part of what it authenticates; others are cut.
    if name.endswith("OCB"):
        assert lib.EVP_CIPHER_CTX_ctrl(context, 0x11, tag_len, None) == 1
    assert lib.EVP_EncryptInit_ex(context, None, None, key, nonce) == 1
    out, done = ctypes.create_string_buffer(len(plain) + 32), ctypes.c_int(0)
    written = 0
    if aad:
        assert lib.EVP_EncryptUpdate(context, None, ctypes.byref(done), aad, len(aad)) == 1
    if plain:
        assert lib.EVP_EncryptUpdate(context, out, ctypes.byref(done), plain, len(plain)) == 1
        written = done.value
    assert lib.EVP_EncryptFinal_ex(context, ctypes.byref(out, written), ctypes.byref(done)) == 1
    written += done.value
    tag = ctypes.create_string_buffer(tag_len)
    assert lib.EVP_CIPHER_CTX_ctrl(context, 0x10, tag_len, tag) == 1
    lib.EVP_CIPHER_CTX_free(context)
    assert written == len(plain)
    return out.raw[:written], tag.raw


def symmetric():
    # RFC 7253, appendix A, second vector.
    coded, tag = aead("AES-128-OCB", bytes(range(16)), bytes.fromhex("BBAA99887766554433221101"), bytes(range(8)), bytes(range(8)))
    assert (coded + tag).hex().upper() == "6820B3657B6F615A5725BDA0D3B4EB3A257C9AF1F8F03009"
    out = []
    for bits in (192, 256):
        for length, aad_len in ((0, 0), (16, 5), (1, 16), (33, 40), (96, 0), (250, 17)):
            label = f"aes-{bits}-ocb {length} {aad_len}"
            key, nonce, aad, plain = (stream(label + part, size) for part, size in (("key", bits // 8), ("iv", 12), ("aad", aad_len), ("", length)))
            coded, tag = aead(f"AES-{bits}-OCB", key, nonce, aad, plain)
            out.append(case(label, f"aes-{bits}-ocb", key=key.hex(), iv=nonce.hex(), aad=aad.hex(), input=plain.hex(), output=coded.hex(), tag=tag.hex()))
    shapes = [(f"aes-{bits}-ocb", bits // 8, nonce, tag) for bits in (128, 192, 256)
              for nonce, tag in ((1, 8), (6, 16), (7, 9), (11, 12), (12, 10), (13, 13), (15, 15), (15, 8))]
    shapes += [("chacha20-poly1305", 32, 12, tag) for tag in (4, 8, 12, 13, 14, 15)]
    for suite, key_len, nonce_len, tag_len in shapes:
        label = f"{suite} nonce {nonce_len} tag {tag_len}"
        key, nonce, aad, plain = (stream(label + part, size) for part, size in (("key", key_len), ("iv", nonce_len), ("aad", 21), ("", 35)))
        coded, tag = aead(suite.upper().replace("CHACHA", "ChaCha"), key, nonce, aad, plain, tag_len)
        out.append(case(label, suite, key=key.hex(), iv=nonce.hex(), aad=aad.hex(), input=plain.hex(), output=coded.hex(), tag=tag.hex()))
    for length in (1, 8, 23, 64, 77):
        label = f"blowfish-ctr {length}"
        key, plain = stream(label + " key", 16), stream(label, length)
        iv = b"\xff" * 7 + b"\xfe" if length == 64 else stream(label + " iv", 8)
        first = int.from_bytes(iv, "big")
        blocks = b"".join(((first + n) % 2**64).to_bytes(8, "big") for n in range(-(-length // 8)))
        pad = encrypt("blowfish-ecb", key, b"", blocks)
        coded = bytes(a ^ b for a, b in zip(plain, pad))
        out.append(case(label, "blowfish-ctr", key=key.hex(), iv=iv.hex(), input=plain.hex(), output=coded.hex()))
    for length in (8, 16, 40, 96):
        label = f"blowfish-cbc {length}"
        key, iv, plain = stream(label + " key", 16), stream(label + " iv", 8), stream(label, length)
        out.append(case(label, "blowfish-cbc", key=key.hex(), iv=iv.hex(), input=plain.hex(), output=encrypt("blowfish-cbc", key, iv, plain).hex()))
    write("made/symmetric.json", f"made by openssl_vectors.py with OpenSSL {VERSION}", out)


class Param(ctypes.Structure):
    """OSSL_PARAM of openssl/core.h."""

    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_uint), ("data", ctypes.c_char_p), ("size", ctypes.c_size_t),
                ("return_size", ctypes.c_size_t)]


def stealing():
    """AES-CBC with ciphertext stealing, by OpenSSL's library. Its parameter `cts_mode` is a string, type 4."""
    lib, out = LIBCRYPTO, []
    lib.EVP_CIPHER_CTX_new.restype = lib.EVP_CIPHER_fetch.restype = ctypes.c_void_p
    for bits in (128, 192, 256):
        cipher = ctypes.c_void_p(lib.EVP_CIPHER_fetch(None, f"AES-{bits}-CBC-CTS".encode(), None))
        for form in ("CS1", "CS2", "CS3"):
            for length in (16, 17, 31, 32, 33, 48, 63, 100):
                label = f"aes-{bits}-cbc-{form.lower()} {length}"
                key, iv, plain = stream(label + " key", bits // 8), stream(label + " iv", 16), stream(label, length)
                params = (Param * 2)(Param(b"cts_mode", 4, form.encode(), 3, 0), Param())
                context = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
                coded, done = ctypes.create_string_buffer(length + 16), ctypes.c_int(0)
                assert lib.EVP_EncryptInit_ex2(context, cipher, key, iv, params) == 1
                assert lib.EVP_EncryptUpdate(context, coded, ctypes.byref(done), plain, length) == 1 and done.value == length
                lib.EVP_CIPHER_CTX_free(context)
                out.append(case(label, label.split()[0], key=key.hex(), iv=iv.hex(), input=plain.hex(), output=coded.raw[:length].hex()))
    write("made/aes_cbc_stealing.json", f"made by openssl_vectors.py with OpenSSL {VERSION}", out)


def khufu():
    patent = b"Hello there, world!\n".ljust(24, b"\0")
    patent = patent[:20] + b"\x80" + patent[21:]
    out = []
    for name, cipher, lengths in (("khufu", khufu_khafre.khufu, (1, 8, 33, 64)), ("khafre", khufu_khafre.khafre, (8, 24))):
        coded = khufu_khafre.cbc(cipher, bytes.fromhex("3450000000000000"), patent)
        out.append(case(f"{name} 345", f"{name}-cbc", key="3450000000000000", iv="00" * 8, input=patent.hex(), output=coded))
        for length in lengths:
            for blocks in (1, 5):
                label = f"{name}-cbc key {length} blocks {blocks}"
                key, iv, plain = stream(label + " key", length), stream(label + " iv", 8), stream(label, 8 * blocks)
                masked = bytes(a ^ b for a, b in zip(plain, iv)) + plain[8:]
                out.append(case(label, f"{name}-cbc", key=key.hex(), iv=iv.hex(), input=plain.hex(), output=khufu_khafre.cbc(cipher, key, masked)))
    write("legacy/khufu_khafre_cbc.json", "US patent 5,003,597 (`345`); the others made by khufu_khafre.py, which reproduces it", out)


def compress(chaining, words, counter, length, flags):
    """BLAKE3's compression function (BLAKE3 paper, 2.2)."""
    state = list(chaining) + [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, counter & 0xFFFFFFFF, counter >> 32, length, flags]
    turn = lambda value, by: (value >> by | value << (32 - by)) & 0xFFFFFFFF
    order = list(range(16))
    for _ in range(7):
        for at, (a, b, c, d) in enumerate([(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                                           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]):
            for word, first, second in ((words[order[2 * at]], 16, 12), (words[order[2 * at + 1]], 8, 7)):
                state[a] = (state[a] + state[b] + word) & 0xFFFFFFFF
                state[d] = turn(state[d] ^ state[a], first)
                state[c] = (state[c] + state[d]) & 0xFFFFFFFF
                state[b] = turn(state[b] ^ state[c], second)
        order = [order[p] for p in (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)]
    return [state[i] ^ state[i + 8] for i in range(8)]


def blake3(data):
    """BLAKE3 of up to one chunk, which is all that HMAC vectors need (BLAKE3 paper, 2.4)."""
    assert len(data) <= 1024
    value = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
    blocks = [data[at : at + 64] for at in range(0, len(data), 64)] or [b""]
    for at, block in enumerate(blocks):
        flags = (1 if at == 0 else 0) | (2 | 8 if at == len(blocks) - 1 else 0)
        padded = block.ljust(64, b"\0")
        words = [int.from_bytes(padded[i : i + 4], "little") for i in range(0, 64, 4)]
        value = compress(value, words, 0, len(block), flags)
    return b"".join(word.to_bytes(4, "little") for word in value)


def blake3_vectors(path):
    out = []
    for entry in json.loads(path.read_text())["cases"]:
        length = entry["input_len"]
        if length <= 5121:
            data = bytes(i % 251 for i in range(length))
            if length <= 1024:
                assert blake3(data).hex() == entry["hash"][:64]
            out.append(case(f"input_len {length}", "blake3", input=data.hex(), tag=entry["hash"][:64]))
    write("papers/blake3.json", "BLAKE3-team/BLAKE3, test_vectors/test_vectors.json, the first 32 bytes of `hash`", out)
    out = []
    for key_len, length in ((20, 8), (4, 28), (64, 64), (65, 77), (131, 200), (32, 0)):
        label = f"hmac-blake3 {key_len} {length}"
        key, message = stream(label + " key", key_len), stream(label, length)
        block = (blake3(key) if key_len > 64 else key).ljust(64, b"\0")
        inner = blake3(bytes(b ^ 0x36 for b in block) + message)
        tag = blake3(bytes(b ^ 0x5C for b in block) + inner)
        out.append(case(label, "hmac-blake3", key=key.hex(), input=message.hex(), tag=tag.hex()))
    write("made/hmac_blake3.json", "made by openssl_vectors.py, whose BLAKE3 reproduces the published vectors", out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    keys = json.loads((DATA / "keys.json").read_text())["keys"]
    blake3_vectors(pathlib.Path(sys.argv[1]))
    khufu()
    symmetric()
    stealing()
    chains()
    with tempfile.TemporaryDirectory() as folder:
        rsa(keys, pathlib.Path(folder))
        rsa_raw(keys, pathlib.Path(folder))
        curves(keys, pathlib.Path(folder))
        for name, width, digest in (("secp256k1", 32, "sha256"), ("p224", 28, "sha224"),
                                    ("brainpoolp256r1", 32, "sha256"), ("brainpoolp384r1", 48, "sha384")):
            curve_and_digests(keys, pathlib.Path(folder), name, width, digest)
    dh_modp(keys)


if __name__ == "__main__":
    main()
