#!/usr/bin/env python3
"""Converts a selection of published test vectors into vectors/data/nist and vectors/data/rfc.

Source: the wheel `cryptography_vectors` (PyPI), which carries NIST's CAVP response files and vectors of RFCs as
they were published. Unpack it and run, with the standard library only:

    python3 vectors/derive/convert_cavp.py FOLDER/cryptography_vectors

Every suite and key size is kept, of long runs of alike vectors every n-th. The output depends on the input alone,
so that running it again changes nothing.
"""

import json
import pathlib
import sys

DATA = pathlib.Path(__file__).parents[1] / "data"
AES = ("128", "192", "256")


def records(path, start):
    """Yields (section, record) of a response file. A key named in `start` begins a record, an empty line ends it;
    values outside of records hold for those that follow."""
    section, common, record = {}, {}, None
    for line in path.read_text(encoding="latin-1").splitlines() + [""]:
        line = line.strip()
        if line.startswith("#"):
            continue
        if not line:
            if record is not None:
                yield section, record
            record = None
            continue
        if line.startswith("["):
            if record is not None:
                yield section, record
            record = None
            body = line.strip("[]")
            if "=" in body:
                section = dict(section, **dict(part.strip().split(" = ") for part in body.split(",")))
            else:
                section, common = {"mode": body}, {}
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        name = name.lower()
        if record is not None and name in start:
            yield section, record
            record = None
        if record is None and name in start:
            record = dict(common, **{name: value})
        elif record is None:
            common[name] = value
        else:
            record[name] = value


def case(ident, suite, way="both", **fields):
    """One case, its hexadecimal fields in lower case, empty ones left out. `pair` names a key pair of keys.json."""
    pair, verdicts = fields.pop("pair", None), {name: fields.pop(name, None) for name in ("invalid", "acceptable")}
    entry = {"id": ident, "suite": suite}
    if way != "both":
        entry["way"] = way
    if pair:
        entry["pair"] = pair
    for name, value in fields.items():
        value = value.lower()
        bytes.fromhex(value)
        if value:
            entry[name] = value
    entry.update((name, why) for name, why in verdicts.items() if why)
    return entry


def write(name, source, cases):
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(entry) for entry in cases)
    path.write_text('{"source": ' + json.dumps(source) + ', "cases": [\n' + lines + "\n]}\n")
    print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")


def number(record):
    return int(record.get("count", "0"))


def aes_modes(root):
    for mode in ("ECB", "CBC", "CFB8", "CFB128", "OFB"):
        out, folder = [], mode.rstrip("0123456789")
        for size in AES:
            for kind, every in (("MMT", 1), ("GFSbox", 1), ("KeySbox", 3), ("VarKey", 16), ("VarTxt", 16)):
                name = f"{mode}{kind}{size}"
                for section, r in records(root / f"ciphers/AES/{folder}/{name}.rsp", {"count"}):
                    if number(r) % every == 0:
                        ident = f"{name} {section['mode'].lower()} {r['count']}"
                        out.append(case(ident, f"aes-{size}-{mode.lower()}", key=r["key"], iv=r.get("iv", ""),
                                        input=r["plaintext"], output=r["ciphertext"]))
        write(f"nist/aes_{mode.lower()}.json", f"NIST CAVP, AESVS, {mode} response files", out)


def triple_des(root):
    out = []
    for mode in ("ECB", "CBC"):
        for kind, every in (("MMT1", 1), ("MMT2", 1), ("MMT3", 1), ("invperm", 5), ("permop", 5), ("subtab", 2),
                            ("varkey", 7), ("vartext", 7)):
            name = f"T{mode}{kind}"
            for section, r in records(root / f"ciphers/3DES/{mode}/{name}.rsp", {"count"}):
                if number(r) % every:
                    continue
                ident = f"{name} {section['mode'].lower()} {r['count']}"
                keys = [r["keys"]] * 3 if "keys" in r else [r["key1"], r["key2"], r["key3"]]
                fields = dict(iv=r.get("iv", ""), input=r["plaintext"], output=r["ciphertext"])
                out.append(case(ident, f"3des-{mode.lower()}", key="".join(keys), **fields))
                if keys[0] == keys[2] and keys[0] != keys[1]:
                    out.append(case(ident + " two keys", f"3des-{mode.lower()}", key="".join(keys[:2]), **fields))
                if keys[0] == keys[1] == keys[2]:
                    out.append(case(ident + " single", f"des-{mode.lower()}", key=keys[0], **fields))
    write("nist/des.json", "NIST CAVP, TDES response files; three equal keys are single DES (NIST SP 800-67)", out)


def xts(root):
    out = []
    for folder, every in (("tweak-128hexstr", 8), ("tweak-dataunitseqno", 20)):
        for size in ("128", "256"):
            path = root / f"ciphers/AES/XTS/{folder}/XTSGenAES{size}.rsp"
            for section, r in records(path, {"count"}):
                if int(r["dataunitlen"]) % 8 or number(r) % every:
                    continue
                tweak = r.get("i") or int(r["dataunitseqnumber"]).to_bytes(16, "little").hex()
                ident = f"{folder}/XTSGenAES{size} {section['mode'].lower()} {r['count']}"
                out.append(case(ident, f"aes-{size}-xts", key=r["key"], iv=tweak, input=r["pt"], output=r["ct"]))
    write("nist/aes_xts.json", "NIST CAVP, XTSGen response files, data units of whole bytes", out)


def gcm(root):
    out = []
    for size in AES:
        for name in (f"gcmEncryptExtIV{size}", f"gcmDecrypt{size}"):
            failures = set()
            for section, r in records(root / f"ciphers/AES/GCM/{name}.rsp", {"count"}):
                tag_bits = int(section["Taglen"])
                # Truncated tags with one shape, full tags with every shape.
                shape = (section["PTlen"], section["AADlen"], tag_bits)
                if section["IVlen"] != "96" or (tag_bits != 128 and shape[:2] != ("408", "160")):
                    continue
                fail = "fail" in r
                if (r["count"] != "0" and not fail) or (fail and shape in failures):
                    continue
                failures |= {shape} if fail else set()
                ident = f"{name} PT {shape[0]} AAD {shape[1]} tag {tag_bits} count {r['count']}"
                fields = dict(key=r["key"], iv=r["iv"], aad=r["aad"], output=r["ct"], tag=r["tag"])
                if fail:
                    out.append(case(ident, f"aes-{size}-gcm", "decrypt", invalid="the tag is wrong", **fields))
                else:
                    out.append(case(ident, f"aes-{size}-gcm", input=r["pt"], **fields))
    write("nist/aes_gcm.json", "NIST CAVP, GCM response files, 96-bit IVs", out)


def gcm_any_iv(root):
    """Of each shape the first; those without text are GMAC's too, their additional data the message."""
    out = []
    for size in AES:
        seen = set()
        for section, r in records(root / f"ciphers/AES/GCM/gcmEncryptExtIV{size}.rsp", {"count"}):
            iv_len, shape = section["IVlen"], tuple(section[name] for name in ("IVlen", "PTlen", "AADlen", "Taglen"))
            # Truncated tags and the usual IV with one shape, full tags with every shape.
            is_usual = iv_len == "96" or section["Taglen"] != "128"
            if shape in seen or (is_usual and shape[1:3] not in (("104", "160"), ("0", "160"))):
                continue
            seen.add(shape)
            ident = "gcmEncryptExtIV{} IV {} PT {} AAD {} tag {}".format(size, *shape)
            fields = dict(key=r["key"], iv=r["iv"], tag=r["tag"])
            out.append(case(ident, f"aes-{size}-gcm-any-iv", aad=r["aad"], input=r["pt"], output=r["ct"], **fields))
            if section["PTlen"] == "0":
                out.append(case(ident, f"aes-{size}-gmac-any-iv", input=r["aad"], **fields))
    write("nist/aes_gcm_any_iv.json", "NIST CAVP, GCM response files, IVs of 8, 96 and 1,024 bits", out)


def ccm(root):
    out = []
    for size in AES:
        for kind, every in (("VADT", 10), ("VNT", 3), ("VPT", 10), ("VTT", 5), ("DVPT", 1)):
            failures = {}
            for section, r in records(root / f"ciphers/AES/CCM/{kind}{size}.rsp", {"count"}):
                sizes = {k.lower(): int(v) for k, v in dict(r, **section).items() if k.lower().endswith("len")}
                fail = r.get("result", "Pass").startswith("Fail")
                if kind == "DVPT":
                    seen = (str(sorted(sizes.items())), fail)
                    failures[seen] = failures.get(seen, 0) + 1
                    if failures[seen] > 1:
                        continue
                elif number(r) % every:
                    continue
                tag_at = len(r["ct"]) - 2 * sizes["tlen"]
                ident = f"{kind}{size} " + " ".join(f"{k} {v}" for k, v in sorted(sizes.items())) + f" count {r['count']}"
                fields = dict(key=r["key"], iv=r["nonce"], aad=r["adata"] if sizes["alen"] else "",
                              output=r["ct"][:tag_at], tag=r["ct"][tag_at:])
                if fail:
                    out.append(case(ident, f"aes-{size}-ccm", "decrypt", invalid="the tag is wrong", **fields))
                else:
                    plain = r["payload"] if sizes["plen"] else ""
                    out.append(case(ident, f"aes-{size}-ccm", input=plain, **fields))
    write("nist/aes_ccm.json", "NIST CAVP, CCM response files", out)


def digests(root):
    out = []
    files = [("SHA1/SHA1", "sha1"), ("SHA2/SHA224", "sha224"), ("SHA2/SHA256", "sha256"), ("SHA2/SHA384", "sha384"),
             ("SHA2/SHA512", "sha512"), ("SHA2/SHA512_224", "sha512-224"), ("SHA2/SHA512_256", "sha512-256"),
             ("SHA3/SHA3_224", "sha3-224"), ("SHA3/SHA3_256", "sha3-256"), ("SHA3/SHA3_384", "sha3-384"),
             ("SHA3/SHA3_512", "sha3-512")]
    for file, suite in files:
        for kind in ("ShortMsg", "LongMsg"):
            for at, (_, r) in enumerate(records(root / f"hashes/{file}{kind}.rsp", {"len"})):
                bits = int(r["len"])
                if bits % 8 or bits > 20000 or (kind == "LongMsg" and at % 4):
                    continue
                out.append(case(f"{file.split('/')[1]}{kind} {bits}", suite, input=r["msg"] if bits else "", tag=r["md"]))
    write("nist/sha.json", "NIST CAVP, SHAVS and SHA3VS response files, whole bytes", out)
    out = []
    for _, r in records(root / "hashes/MD5/rfc-1321.txt", {"len"}):
        out.append(case(f"A.5 {r['len']}", "md5", input=r["msg"] if r["len"] != "0" else "", tag=r["md"]))
    write("rfc/md5.json", "RFC 1321, A.5", out)


def extendable_outputs(root):
    """SHAKE, of variable lengths of output and of messages. Messages around whole blocks and outputs of 32 and 64 bytes are all
    kept."""
    out = []
    for bits, rate in ((128, 168), (256, 136)):
        suite, path = f"shake{bits}", root / "hashes/SHAKE"
        for at, (_, r) in enumerate(records(path / f"SHAKE{bits}VariableOut.rsp", {"count"})):
            length = int(r["outputlen"])
            if length == 2 * bits or (at % 16 == 0 and length % 8 == 0):
                ident = f"SHAKE{bits}VariableOut {r['count']}, {r['outputlen']} bits"
                out.append(case(ident, suite, input=r["msg"], tag=r["output"]))
        for kind in ("ShortMsg", "LongMsg"):
            for at, (_, r) in enumerate(records(path / f"SHAKE{bits}{kind}.rsp", {"len"})):
                size = int(r["len"]) // 8
                at_edge = size % rate in (0, 1, rate - 2, rate - 1)
                if size <= 2500 and (at % 4 == 0 or at_edge):
                    out.append(case(f"SHAKE{bits}{kind} {8 * size}", suite, input=r["msg"][:2 * size], tag=r["output"]))
    write("nist/shake.json", "NIST CAVP, SHA3VS response files", out)


def macs(root):
    out = []
    for file, suite in [("rfc-2202-md5", "md5"), ("rfc-2202-sha1", "sha1"), ("rfc-4231-sha224", "sha224"),
                        ("rfc-4231-sha256", "sha256"), ("rfc-4231-sha384", "sha384"), ("rfc-4231-sha512", "sha512")]:
        for at, (_, r) in enumerate(records(root / f"HMAC/{file}.txt", {"len"})):
            out.append(case(f"{file} {at + 1}", f"hmac-{suite}", key=r["key"], input=r["msg"], tag=r["md"]))
    write("rfc/hmac.json", "RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2)", out)
    out = []
    for size in AES:
        for _, r in records(root / f"CMAC/nist-800-38b-aes{size}.txt", {"count"}):
            out.append(case(f"AES-{size} {r['count']}", f"aes-{size}-cmac", key=r["key"], input=r["message"], tag=r["output"]))
    write("nist/aes_cmac.json", "NIST SP 800-38B, appendix D (AES-128: RFC 4493)", out)
    out = []
    for _, r in records(root / "CMAC/nist-800-38b-3des.txt", {"count"}):
        key = r["key1"] + r["key2"] + (r["key3"] if r["key3"] != r["key1"] else "")
        out.append(case(f"3DES {r['count']}", "3des-cmac", key=key, input=r["message"], tag=r["output"]))
    write("nist/3des_cmac.json", "NIST SP 800-38B, appendix D", out)
    out = []
    for _, r in records(root / "poly1305/rfc7539.txt", {"count"}):
        out.append(case(f"A.3 {r['count']}", "poly1305", key=r["key"], input=r["msg"], tag=r["tag"]))
    write("rfc/poly1305.json", "RFC 8439, A.3 (as in RFC 7539)", out)


def key_wrap(root):
    """Of each length the first of those that are right and of those that are wrong."""
    out = []
    for kind in ("KW", "KWP"):
        for size in AES:
            for what in ("AE", "AD"):
                file, seen = f"{kind}_{what}_{size}", set()
                for section, r in records(root / f"keywrap/kwtestvectors/{file}.txt", {"count"}):
                    length, fails = len(r["c"]), "p" not in r
                    if (length, fails) in seen:
                        continue
                    seen.add((length, fails))
                    way = {"invalid": "the initial value or the padding is wrong"} if fails else {}
                    out.append(case(f"{file} {r['count']}, {length // 2} bytes", f"aes-{size}-{kind.lower()}", "decrypt" if fails else "both",
                                    key=r["k"], input=r.get("p", ""), output=r["c"], **way))
    write("nist/aes_key_wrap.json", "NIST CAVP, KW and KWP (SP 800-38F) response files", out)


def other_aeads(root):
    out = []
    for file in ("rfc7253", "test-vector-1-nonce104", "test-vector-1-nonce112", "test-vector-1-nonce120"):
        for _, r in records(root / f"ciphers/AES/OCB3/{file}.txt", {"count"}):
            at = len(r["ciphertext"]) - 32
            out.append(case(f"{file} {r['count']}", f"aes-{len(r['key']) * 4}-ocb", key=r["key"], iv=r["nonce"], aad=r["aad"],
                            input=r["plaintext"], output=r["ciphertext"][:at], tag=r["ciphertext"][at:]))
    # The one with a tag of 96 bits, which no file has.
    text = bytes(range(40)).hex()
    sealed = ("1792a4e31e0755fb03e31b22116e6c2ddf9efd6e33d536f1a0124b0a55bae884ed93481529c76b6a", "d0c515f4d1cdd4fdac4f02aa")
    out.append(case("TAGLEN96", "aes-128-ocb", key=bytes(range(15, -1, -1)).hex(), iv="bbaa9988776655443322110d", aad=text, input=text,
                    output=sealed[0], tag=sealed[1]))
    write("rfc/aes_ocb.json", "RFC 7253, appendix A; nonces of 104 bits and more: D. K. Gillmor, ocb-test-vectors", out)
    out = []
    for _, r in records(root / "ciphers/AES/SIV/openssl.txt", {"count"}):
        if "aad2" in r:
            continue
        out.append(case(f"SIV {r['count']}", f"aes-{len(r['key']) * 2}-siv", key=r["key"], aad=r["aad"],
                        input=r["plaintext"], output=r["ciphertext"], tag=r["tag"]))
    write("rfc/aes_siv.json", "RFC 5297, A.1; for 192 and 256 bits OpenSSL's, by the same construction", out)
    out = []
    for _, r in records(root / "ciphers/AES/GCM-SIV/openssl.txt", {"count"}):
        fields = dict(key=r["key"], iv=r["iv"], aad=r.get("aad", ""), output=r.get("ciphertext", ""), tag=r["tag"])
        suite = f"aes-{len(r['key']) * 4}-gcm-siv"
        if "ERROR" in r.get("result", ""):
            out.append(case(f"GCM-SIV {r['count']}", suite, "decrypt", invalid="the tag is wrong", **fields))
        else:
            out.append(case(f"GCM-SIV {r['count']}", suite, input=r.get("plaintext", ""), **fields))
    write("rfc/aes_gcm_siv.json", "RFC 8452, appendix C, with OpenSSL's negative ones", out)
    out = []
    for _, r in records(root / "ciphers/ChaCha20Poly1305/openssl.txt", {"count"}):
        if len(r["iv"]) != 24 or len(r["tag"]) != 32:
            continue
        fields = dict(key=r["key"], iv=r["iv"], aad=r.get("aad", ""), output=r["ciphertext"], tag=r["tag"])
        if "result" in r:
            out.append(case(f"evpciph {r['count']}", "chacha20-poly1305", "decrypt", invalid="the tag is wrong", **fields))
        else:
            out.append(case(f"evpciph {r['count']}", "chacha20-poly1305", input=r["plaintext"], **fields))
    write("rfc/chacha20_poly1305.json", "RFC 8439, A.5, and OpenSSL's evpciph vectors", out)


def streams(root):
    out = []
    for size in AES:
        for _, r in records(root / f"ciphers/AES/CTR/aes-{size}-ctr.txt", {"count"}):
            fields = dict(key=r["key"], input=r["plaintext"], output=r["ciphertext"])
            out.append(case(f"AES-{size} {r['count']} counter block", f"aes-{size}-ctr", iv=r["iv"], **fields))
            if r["iv"].endswith("00000001"):
                out.append(case(f"AES-{size} {r['count']} nonce", f"aes-{size}-ctr", iv=r["iv"][:24], **fields))
    write("rfc/aes_ctr.json", "RFC 3686, section 6", out)
    out = []
    for _, r in records(root / "ciphers/ChaCha20/rfc7539.txt", {"count"}):
        counter = int(r["initial_block_counter"])
        fields = dict(key=r["key"], input=r["plaintext"], output=r["ciphertext"])
        out.append(case(f"A.2 {r['count']}", "chacha20", iv=counter.to_bytes(4, "little").hex() + r["nonce"], **fields))
        if counter == 0:
            out.append(case(f"A.2 {r['count']} nonce", "chacha20", iv=r["nonce"], **fields))
    write("rfc/chacha20.json", "RFC 8439, A.2 (as in RFC 7539)", out)
    # The RFC lists stretches of the key stream. What lies between them is not published, so that only the stretches
    # from the start can be cases.
    out = []
    for bits in ("40", "56", "64", "80", "128", "192", "256"):
        stream = {}
        for _, r in records(root / f"ciphers/ARC4/rfc-6229-{bits}.txt", {"count"}):
            stream.setdefault(r["key"], {})[int(r["offset"])] = r["ciphertext"]
        for key, parts in sorted(stream.items()):
            first = parts[0] + parts[16]
            out.append(case(f"{bits} bits {key[:8]}", "rc4", key=key, input="00" * 32, output=first))
    write("rfc/rc4.json", "RFC 6229, section 2, the first 32 bytes of each key stream", out)
    out = []
    for mode in ("ecb", "cbc"):
        for _, r in records(root / f"ciphers/Blowfish/bf-{mode}.txt", {"count"}):
            if 8 <= len(r["key"]):
                out.append(case(f"{mode} {r['count']}", f"blowfish-{mode}", key=r["key"], iv=r.get("iv", ""),
                                input=r["plaintext"], output=r["ciphertext"]))
    write("papers/blowfish.json", "B. Schneier and E. Young, Blowfish test vectors (vectors-2.txt)", out)


def public_keys(root):
    out = []
    for _, r in records(root / "asymmetric/X25519/rfc7748.txt", {"count"}):
        out.append(case(f"5.2 {r['count']}", "x25519", "encrypt", private=r["input_scalar"], input=r["input_u"], output=r["output_u"]))
    write("rfc/x25519.json", "RFC 7748, 5.2", out)
    out = []
    for at, line in enumerate((root / "asymmetric/Ed25519/sign.input").read_text().splitlines()):
        secret, public, message, signed, _ = line.split(":")
        if at < 64 or at % 64 == 0:
            out.append(case(f"sign.input {at}", "ed25519", private=secret[:64], public=public, input=message, tag=signed[:128]))
    write("rfc/ed25519.json", "D. J. Bernstein et al., sign.input of the Ed25519 software (RFC 8032, 7.1 gives the same)", out)
    out = []
    for size in ("512", "768", "1024"):
        for _, r in records(root / f"asymmetric/MLKEM/kat_MLKEM_{size}.rsp", {"count"}):
            if number(r) < 3:
                fields = dict(private=r["d"] + r["z"], public=r["pk"])
                out.append(case(f"ML-KEM-{size} {r['count']}", f"ml-kem-{size}", "decrypt", tag=r["ct"], output=r["ss"], **fields))
                # Implicit rejection: a wrong ciphertext gives another secret, FIPS 203, 6.3.
                out.append(case(f"ML-KEM-{size} {r['count']} rejected", f"ml-kem-{size}", "decrypt", tag=r["ct_n"], output=r["ss_n"], **fields))
    write("nist/ml_kem.json", "post-quantum-cryptography/KAT, ML-KEM response files (FIPS 203)", out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    for convert in (aes_modes, triple_des, xts, gcm, gcm_any_iv, ccm, digests, extendable_outputs, macs, key_wrap, other_aeads, streams, public_keys):
        convert(root)


if __name__ == "__main__":
    main()
