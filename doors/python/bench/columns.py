"""Columns through Python, against the packages that people use now: one core, the same values, each at its best loop.

    python bench/columns.py [ROWS]      (1,500,000: TPC-H customer at scale 10)

Prints values per second and the factor; the highest of five rounds counts, and rounds of both alternate.
"""

import os
import sys
import tempfile
import time

os.environ["CIPHERMILL_THREADS"] = "0"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import pyarrow as pa  # noqa: E402
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV  # noqa: E402
from fastfpe import ff1  # noqa: E402

import ciphermill  # noqa: E402

ROUNDS = 5
# Values that a loop in Python goes through in a round: a rate needs no more of them.
LOOP = 100_000


def rate(work, values):
    start = time.perf_counter()
    work()
    return values / (time.perf_counter() - start)


def compare(title, ours, values, peer, name, loop=LOOP):
    best = [0.0, 0.0]
    for _ in range(ROUNDS):
        best[0] = max(best[0], rate(ours, values))
        best[1] = max(best[1], rate(peer, loop))
    print(f"{title:24} {best[0] / 1e6:8.2f} M/s   {name:24} {best[1] / 1e6:7.3f} M/s   {best[0] / best[1]:6.1f} times")


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_500_000
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "key")
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        keystore = ciphermill.Keystore.create(os.path.join(folder, "keys"), key_file=secret)
        key = keystore.generate("customers")
    texts = [f"Customer#{number:016}" for number in range(rows)]
    assert len(texts[0]) == 25
    column = pa.array(texts)
    some = [text.encode() for text in texts[:LOOP]]
    columns = {"siv": "deterministic", "gcm": "random", "ff1": "ff1", "token": "token"}
    protector = ciphermill.Protector(key, columns)

    siv = AESSIV(os.urandom(64))
    name = [b"c_name"]
    compare("deterministic, 25 bytes", lambda: protector.protect(column, "siv"), rows,
            lambda: [siv.encrypt(text, name) for text in some], "cryptography AESSIV")
    gcm = AESGCM(os.urandom(32))
    urandom = os.urandom

    def seal():
        for text in some:
            nonce = urandom(12)
            nonce + gcm.encrypt(nonce, text, b"c_name")

    compare("random, 25 bytes", lambda: protector.protect(column, "gcm"), rows, seal, "cryptography AESGCM")
    stored = [pa.array(protector.protect(column, how)) for how in ("siv", "gcm")]
    sealed = [siv.encrypt(text, name) for text in some]
    compare("deterministic, restored", lambda: protector.unprotect(stored[0], "siv"), rows,
            lambda: [siv.decrypt(text, name) for text in sealed], "cryptography AESSIV")
    digits = [f"{number * 7919 % 10**16:016}" for number in range(rows)]
    cards = pa.array(digits)
    some_digits = digits[:LOOP]
    fpe_key, tweak = os.urandom(32).hex(), ""
    encrypt = ff1.encrypt
    compare("ff1, 16 digits", lambda: protector.protect(cards, "ff1"), rows,
            lambda: [encrypt(fpe_key, tweak, "0123456789", text) for text in some_digits], "fastfpe FF1")
    one = pa.array(["Customer#0000000000000001"])
    for title, run in (
        ("one value, array", lambda: protector.protect(one, "siv")),
        ("one value, native", lambda: protector._columns.run(one, True, ["siv"], False)),
    ):
        best = 1e9
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(1000):
                run()
            best = min(best, (time.perf_counter() - start) * 1000)
        print(f"{title:24} {best:8.2f} us a call")


if __name__ == "__main__":
    main()
