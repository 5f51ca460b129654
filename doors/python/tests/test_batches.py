"""Batches of messages against the package `cryptography` and Python's own hashes."""

import hashlib
import hmac
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESGCMSIV, AESSIV, ChaCha20Poly1305

import ciphermill
from ciphermill import Misuse, NotAuthentic, Refused, digest_many, mac_many, open_many, seal_many

LENGTHS = [0, 1, 8, 15, 16, 17, 40, 80, 1000]
MESSAGES = [os.urandom(length) for length in LENGTHS] * 20


@pytest.mark.parametrize(
    "suite, key_len, nonce_len, peer",
    [
        ("aes-128-gcm", 16, 12, AESGCM),
        ("aes-256-gcm", 32, 12, AESGCM),
        ("aes-256-gcm-siv", 32, 12, AESGCMSIV),
        ("chacha20-poly1305", 32, 12, ChaCha20Poly1305),
    ],
)
def test_authenticated_suites(suite, key_len, nonce_len, peer):
    keys = [os.urandom(key_len) for _ in MESSAGES]
    nonces = [os.urandom(nonce_len) for _ in MESSAGES]
    aads = [os.urandom(length % 30) for length in range(len(MESSAGES))]
    # OpenSSL's GCM-SIV takes no empty messages.
    some = [at for at, message in enumerate(MESSAGES) if message or peer is not AESGCMSIV]
    keys, nonces, aads, messages = ([column[at] for at in some] for column in (keys, nonces, aads, MESSAGES))
    sealed = seal_many(suite, keys, nonces, messages, aads)
    assert sealed == [peer(key).encrypt(nonce, text, aad) for key, nonce, text, aad in zip(keys, nonces, messages, aads)]
    assert open_many(suite, keys, nonces, sealed, aads) == messages
    one = seal_many(suite, keys[0], nonces, messages, b"for all")
    assert one == [peer(keys[0]).encrypt(nonce, text, b"for all") for nonce, text in zip(nonces, messages)]


def test_siv():
    key = os.urandom(64)
    sealed = seal_many("aes-256-siv", key, None, MESSAGES[1:9], b"name")
    assert sealed == [AESSIV(key).encrypt(message, [b"name"]) for message in MESSAGES[1:9]]
    assert open_many("aes-256-siv", key, None, sealed, b"name") == MESSAGES[1:9]


def test_ciphers_digests_and_macs():
    key, iv = os.urandom(16), os.urandom(16)
    blocks = [os.urandom(16 * length) for length in range(1, 9)]
    for suite, mode in (("aes-128-cbc", modes.CBC), ("aes-128-ctr", modes.CTR)):
        wanted = []
        for block in blocks:
            encryptor = Cipher(algorithms.AES(key), mode(iv)).encryptor()
            wanted.append(encryptor.update(block) + encryptor.finalize())
        assert seal_many(suite, key, [iv] * len(blocks), blocks) == wanted
        assert open_many(suite, key, [iv] * len(blocks), wanted) == blocks
    assert digest_many("sha256", MESSAGES) == [hashlib.sha256(message).digest() for message in MESSAGES]
    keys = [os.urandom(32) for _ in MESSAGES]
    wanted = [hmac.digest(key, message, "sha256") for key, message in zip(keys, MESSAGES)]
    assert mac_many("hmac-sha256", keys, MESSAGES) == wanted
    assert mac_many("hmac-sha256", keys, MESSAGES, tag_len=16) == [tag[:16] for tag in wanted]


def test_arrays():
    count = 1000
    keys, nonces, messages = (np.random.default_rng(7).integers(0, 256, (count, width), np.uint8) for width in (32, 12, 40))
    sealed = seal_many("aes-256-gcm", keys, nonces, messages, b"a")
    assert sealed.shape == (count, 56)
    rows = [AESGCM(key.tobytes()).encrypt(nonce.tobytes(), text.tobytes(), b"a") for key, nonce, text in zip(keys, nonces, messages)]
    assert [row.tobytes() for row in sealed] == rows
    assert np.array_equal(open_many("aes-256-gcm", keys, nonces, sealed, b"a"), messages)
    # Views with gaps are copied by NumPy, not misread.
    wide = np.random.default_rng(8).integers(0, 256, (count, 64), np.uint8)
    assert np.array_equal(seal_many("aes-256-gcm", keys, wide[:, 3:15], wide[::-1, 20:60]),
                          seal_many("aes-256-gcm", keys, wide[:, 3:15].copy(), wide[::-1, 20:60].copy()))
    assert digest_many("sha256", messages).shape == (count, 32)
    assert digest_many("sha256", np.zeros((0, 5), np.uint8)).shape == (0, 32)


def test_what_is_not_authentic(keystore):
    key, nonces = os.urandom(32), [os.urandom(12) for _ in range(5)]
    sealed = seal_many("aes-256-gcm", key, nonces, [b"text"] * 5)
    sealed[3] = sealed[3][:-1] + bytes([sealed[3][-1] ^ 1])
    with pytest.raises(NotAuthentic, match="message 3") as caught:
        open_many("aes-256-gcm", key, nonces, sealed)
    assert caught.value.row == 3
    assert open_many("aes-256-gcm", key, nonces, sealed, errors="none") == [b"text", b"text", b"text", None, b"text"]


def test_keys_of_a_keystore(keystore):
    key = keystore.generate("gcm", suite="aes-256-gcm")
    other = keystore.generate("gcm-2", suite="aes-256-gcm")
    nonces = [bytes([at]) * 12 for at in range(4)]
    sealed = seal_many("aes-256-gcm", [key, other, key, other], nonces, [b"a", b"b", b"c", b"d"])
    assert open_many("aes-256-gcm", key, nonces[::2], sealed[::2]) == [b"a", b"c"]
    with pytest.raises(Refused):
        seal_many("aes-256-ctr", key, [bytes(16)], [b"a"])


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: seal_many("aes-512-gcm", b"", None, []), "there is no suite"),
        (lambda: seal_many("aes-256-gcm", bytes(32), [bytes(12)], [b"a", b"b"]), "nonces: 1 for 2"),
        (lambda: seal_many("aes-256-gcm", bytes(32), bytes(12), [b"a", b"b"]), "each message has its own"),
        (lambda: seal_many("aes-256-gcm", bytes(32), [bytes(12), bytes(11)], [b"a", b"b"]), "all have one length"),
        (lambda: seal_many("aes-256-gcm", bytes(32), None, [b"a"]), "initialisation vector"),
        (lambda: seal_many("aes-256-gcm", None, [bytes(12)], [b"a"]), "key"),
        (lambda: seal_many("aes-256-gcm", bytes(32), [bytes(12)], ["a"]), "messages, 0: str"),
        (lambda: seal_many("aes-256-gcm", bytes(32), [bytes(12)], 5), "a list of bytes"),
        (lambda: seal_many("aes-256-gcm", bytes(32), [bytes(12)], b"a"), "a list of bytes"),
        (lambda: open_many("aes-256-gcm", bytes(32), [bytes(12)], [b"short"]), "its tag 16"),
        (lambda: open_many("aes-256-gcm", bytes(32), [bytes(12)], [bytes(20)], errors="ignore"), "raise"),
        (lambda: digest_many("sha256", np.zeros((3, 4), np.uint16)), "uint8"),
        (lambda: digest_many("sha256", np.zeros(3, np.uint8)), "a row for each"),
        (lambda: mac_many("hmac-sha256", [bytes(32)], [b"a", b"b"]), "keys: 1 for 2"),
    ],
)
def test_mistakes_are_named(call, error):
    with pytest.raises(Misuse, match=error):
        call()


def test_a_key_of_a_wrong_length_is_refused():
    with pytest.raises(ciphermill.CiphermillError):
        seal_many("aes-256-gcm", bytes(31), [bytes(12)], [b"a"])
