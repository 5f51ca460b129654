"""Scapy as the other end of a tunnel: reads a request a line, as JSON, and answers with a line.

Keys come as ours do, the cipher's and behind it the MAC's. `open` takes packets from the outer header on, checks their checksums and their
padding, and answers with what is within; `seal` makes packets with given numbers and IVs.
"""
import copy
import hmac
import json
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import CRYPT_ALGOS, ESP, SecurityAssociation

DIGESTS = {
    "hmac-sha1-96": ("HMAC-SHA1-96", 20, 12),
    "hmac-sha256-128": ("SHA2-256-128", 32, 16),
    "hmac-sha384-192": ("SHA2-384-192", 48, 24),
    "hmac-sha512-256": ("SHA2-512-256", 64, 32),
}


def short_gcm(icv_len):
    """GCM with a shortened tag. Scapy (2.8.0) ignores `crypt_icv_size` there: `AESGCM` always writes 16 bytes, and takes the last 16 for the
    tag. What is opened is decrypted as CTR, sealed again, and the beginnings of the tags are compared."""

    class Short:
        def __init__(self, key):
            self.key = key

        def encrypt(self, nonce, data, aad):
            return AESGCM(self.key).encrypt(nonce, data, aad)[: icv_len - 16 or None]

        def decrypt(self, nonce, sealed, aad):
            ciphertext, icv = sealed[:-icv_len], sealed[-icv_len:]
            counter = modes.CTR(nonce + b"\0\0\0\2")
            plain = Cipher(algorithms.AES(self.key), counter).decryptor().update(ciphertext)
            if not hmac.compare_digest(AESGCM(self.key).encrypt(nonce, plain, aad)[-16:][:icv_len], icv):
                raise InvalidTag
            return plain

    return Short


def association(request):
    """Scapy's association for a transform of ours."""
    name, key, salt = request["transform"], bytes.fromhex(request["key"]), bytes.fromhex(request["salt"])
    crypt, _, auth = name.partition("+")
    options = {}
    icv_len = 16
    if auth in DIGESTS:
        options["auth_algo"], mac_len, icv_len = DIGESTS[auth]
        key, options["auth_key"] = key[:-mac_len], key[-mac_len:]
    if auth.endswith("-gmac"):
        crypt_algo = "AES-NULL-GMAC"
    elif crypt == "chacha20-poly1305":
        crypt_algo = "CHACHA20-POLY1305"
    else:
        parts = crypt.split("-")
        if parts[-1] in ("gcm", "ccm", "64", "96"):
            mode = parts[2]
            icv_len = int(parts[3]) // 8 if len(parts) > 3 else 16
            crypt_algo = "AES-" + mode.upper()
            if mode == "ccm":
                options["crypt_icv_size"] = icv_len
        else:
            crypt_algo = {"aes": "AES-CBC", "3des": "3DES", "null": "NULL"}[parts[0]]
    udp = UDP(sport=4500, dport=4500) if request["udp"] else None
    layer = IPv6 if ":" in request["source"] else IP
    header = layer(src=request["source"], dst=request["destination"])
    found = SecurityAssociation(
        ESP, spi=request["spi"], crypt_algo=crypt_algo, crypt_key=key + salt, tunnel_header=header, nat_t_header=udp, **options
    )
    if crypt_algo == "AES-GCM":
        found.crypt_algo = copy.copy(CRYPT_ALGOS["AES-GCM"])
        found.crypt_algo.cipher = short_gcm(icv_len)
        found.crypt_icv_size = icv_len
    return found, layer, icv_len


def check_outer(packet, layer, has_udp):
    """Lengths and checksums are those that Scapy writes."""
    again = packet.copy()
    if layer is IP:
        del again.chksum, again.len
    else:
        del again.plen
    if has_udp:
        del again[UDP].len
        # RFC 3948, 2.1: none over IPv4.
        if layer is IPv6:
            del again[UDP].chksum
        else:
            assert packet[UDP].chksum == 0, "a UDP checksum over IPv4"
    assert bytes(again) == bytes(packet), "the outer header"


def opened(request):
    answer = []
    sa, layer, icv_len = association(request)
    for one in request["packets"]:
        packet = layer(bytes.fromhex(one["packet"]))
        high, low = one["number"] >> 32, one["number"] & 0xFFFFFFFF
        assert packet[ESP].seq == low, "the number"
        check_outer(packet, layer, request["udp"])
        extended = {"esn_en": request["extended"], "esn": high}
        plain = sa.crypt_algo.decrypt(sa, packet[ESP], sa.crypt_key, icv_len, **extended)
        assert bytes(plain.padding) == bytes(range(1, plain.padlen + 1)), "the padding"
        align = max(4, sa.crypt_algo.block_size)
        assert plain.padlen < align and (len(bytes(plain.data)) + plain.padlen + 2) % align == 0, "the padding's length"
        assert plain.nh == (41 if bytes(plain.data)[0] >> 4 == 6 else 4), "the next header"
        # Verifies the ICV of an HMAC, which the above does not.
        inner = bytes(sa.decrypt(packet, **extended))
        assert inner == bytes(plain.data), "what is within"
        answer.append(inner.hex())
    return answer


def sealed(request):
    answer = []
    sa, _, _ = association(request)
    for one in request["packets"]:
        inner = bytes.fromhex(one["packet"])
        inner = (IPv6 if inner[0] >> 4 == 6 else IP)(inner)
        high, low = one["number"] >> 32, one["number"] & 0xFFFFFFFF
        iv = bytes.fromhex(one["iv"])
        # Scapy takes `seq_num` 0, which is the low half of 2^32, for none, and its own counter instead.
        sa.seq_num = low
        packet = sa.encrypt(inner, iv=iv, esn_en=request["extended"], esn=high)
        answer.append(bytes(packet).hex())
    return answer


for line in sys.stdin:
    asked = json.loads(line)
    try:
        result = {"packets": (opened if asked["do"] == "open" else sealed)(asked)}
    except Exception as error:  # Told to the test, which stops.
        result = {"error": repr(error)}
    print(json.dumps(result), flush=True)
