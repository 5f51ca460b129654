"""What live.sh sends and receives: streams and datagrams that are counted, captures, packets that nobody wants.

Each command prints what it found in one line. Only the standard library is used.
"""

import argparse
import hashlib
import os
import socket
import struct
import sys
import time

CHUNK = 1 << 20
ETHERNET, RAW = 1, 101
ESP, UDP = 50, 17


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(args):
    """Takes one stream and prints its bytes and hash."""
    listener = socket.create_server((args.address, args.port), family=family(args.address))
    print("listens", file=sys.stderr, flush=True)
    connection, _ = listener.accept()
    digest, count = hashlib.sha256(), 0
    while data := connection.recv(CHUNK):
        digest.update(data)
        count += len(data)
    print(count, digest.hexdigest())


def send(args):
    """Sends random bytes, and prints their number, hash, and the seconds that it took to stderr."""
    began = time.monotonic()
    connection = socket.create_connection((args.address, args.port), timeout=30)
    digest, count = hashlib.sha256(), 0
    block = os.urandom(CHUNK)
    for number in range(args.megabytes):
        # Each block is another one, so that none can stand for another.
        data = struct.pack(">Q", number) + block[8:1000000]
        digest.update(data)
        count += len(data)
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    print(count, digest.hexdigest())
    seconds = time.monotonic() - began
    print(f"{count / 1e6 / seconds:.0f} MB/s", file=sys.stderr)


def udp_receive(args):
    """Takes numbered datagrams until none comes for a second; prints how many numbers came, came twice, and came out of order."""
    receiver = socket.socket(family(args.address), socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    receiver.bind((args.address, args.port))
    print("listens", file=sys.stderr, flush=True)
    receiver.settimeout(10)
    seen, twice, unordered, last = set(), 0, 0, -1
    try:
        while True:
            number = struct.unpack(">Q", receiver.recv(65536)[:8])[0]
            receiver.settimeout(1)
            twice += number in seen
            unordered += number < last
            seen.add(number)
            last = number
    except TimeoutError:
        print(len(seen), twice, unordered)


def udp_send(args):
    """Sends numbered datagrams, so many a second."""
    sender = socket.socket(family(args.address), socket.SOCK_DGRAM)
    began = time.monotonic()
    for number in range(args.count):
        ahead = number / args.rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)
        sender.sendto(struct.pack(">Q", number) + bytes(number % 1200), (args.address, args.port))


def records(path):
    """The packets of a capture, from their IP headers on, with what lies before."""
    with open(path, "rb") as file:
        data = file.read()
    magic = struct.unpack("<I", data[:4])[0]
    if magic not in (0xA1B2C3D4, 0xA1B23C4D):
        raise SystemExit(f"{path}: no capture of this machine's byte order")
    link = struct.unpack("<I", data[20:24])[0] & 0xFFFF
    before = {ETHERNET: 14, RAW: 0}[link]
    at = 24
    while at < len(data):
        kept, length = struct.unpack("<II", data[at + 8 : at + 16])
        if kept != length:
            raise SystemExit(f"{path}: a packet is cut off")
        packet = data[at + 16 : at + 16 + kept]
        at += 16 + kept
        yield packet[:before], packet[before:]


def count(args):
    """How many packets a capture has."""
    print(sum(1 for _ in records(args.file)))


def replay(args):
    """Sends a capture's frames as they are, by an interface; prints how many."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((args.interface, 0))
    sent = 0
    for header, packet in records(args.file):
        raw.send(header + packet)
        sent += 1
    print(sent)


def hostile(args):
    """ESP that nobody has asked for, `count` of each kind."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, ESP)
    for _ in range(args.count):
        # SPIs that nobody has have their first bit set.
        unknown = struct.pack(">II", int.from_bytes(os.urandom(4), "big") | 1 << 31, 1)
        raw.sendto(unknown + os.urandom(80), (args.address, 0))
        # The right SPI, a number that is still to come, and nothing that verifies.
        raw.sendto(struct.pack(">II", args.spi, 1 << 20) + os.urandom(80), (args.address, 0))
        # No room for what ESP has at least.
        raw.sendto(struct.pack(">II", args.spi, 1 << 20)[: 1 + os.urandom(1)[0] % 7], (args.address, 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(args.count):
        datagrams.sendto(b"\xff", (args.address, 4500))


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet_v4(source, destination, payload):
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, UDP, 0)
    header += socket.inet_aton(source) + socket.inet_aton(destination)
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + payload


def make(args):
    """Writes a capture with UDP packets of many lengths."""
    with open(args.file, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, RAW))
        for number in range(args.count):
            data = os.urandom(number % 1300)
            datagram = struct.pack(">HHHH", 4000, 5000, 8 + len(data), 0) + data
            packet = packet_v4(args.source, args.destination, datagram)
            file.write(struct.pack("<IIII", number, 0, len(packet), len(packet)) + packet)


def compare(args):
    """Whether two captures have the same packets, but for what a hop changes: time to live, and the header's checksum."""
    def essence(packet):
        return packet[:8] + packet[9:10] + packet[12:]

    one, other = ([essence(packet) for _, packet in records(path)] for path in (args.file, args.other))
    if one != other:
        differing = sum(a != b for a, b in zip(one, other))
        raise SystemExit(f"{len(one)} and {len(other)} packets, {differing} of them differ")
    print(len(one))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    names = {
        "address": str, "port": int, "megabytes": int, "count": int, "rate": int, "file": str, "other": str,
        "interface": str, "spi": lambda text: int(text, 0), "source": str, "destination": str,
    }
    for run, arguments in [
        (receive, "address port"),
        (send, "address port megabytes"),
        (udp_receive, "address port"),
        (udp_send, "address port count rate"),
        (count, "file"),
        (replay, "interface file"),
        (hostile, "address spi count"),
        (make, "file source destination count"),
        (compare, "file other"),
    ]:
        command = commands.add_parser(run.__name__.replace("_", "-"), help=run.__doc__)
        command.set_defaults(run=run)
        for name in arguments.split():
            command.add_argument(name, type=names[name])
    args = parser.parse_args()
    args.run(args)


main()
