"""Measures ipsec-secgw in memory on one core: see secgw.sh, which starts this.

The one port reads a set of packets in a circle (net_pcap with infinite_rx, which copies each of them into a fresh buffer) and
drops what is sent. There is one SA in tunnel mode, no replay window, one policy. Sizes are those of the inner IP packets, which
says the same for all suites. Rates are the port's own counters of packets sent, read twice over DPDK's
telemetry, half a second after the first packet left and again at the end: starting up is no part of them.

Of what ipsec-secgw can be told, this is what was fastest: its own path instead of librte_ipsec (no `-l`), a single SA that is
named instead of looked up, crypto_aesni_gcm for GCM and crypto_aesni_mb for the rest, huge pages. Bursts of 64 and 128 packets
instead of 32, other sizes of the pool and a build for the processor at hand made no difference.

Before anything is timed, the packets of both directions are compared: what it has sealed is opened by scapy, and what scapy has
sealed is opened by it.
"""

import argparse
import fnmatch
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from scapy.layers.inet import IP, UDP
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap, wrpcap

SIZES = [64, 512, 1424]
PACKETS = 256
SPI = 5
SOURCE, DESTINATION = "172.16.1.5", "172.16.2.5"
INSIDE = "192.168.105"
START_SECONDS = 30
WARM_UP_SECONDS = 0.5
# A share of the core below this says that something else ran there.
UNDISTURBED = 0.98


class Suite:
    """A suite as ipsec-secgw, its driver and scapy name it, with keys of this run."""

    def __init__(self, title, driver, crypt, key_len, secgw, auth=None):
        self.title, self.driver, self.crypt, self.auth = title, driver, crypt, auth
        self.key, self.auth_key = os.urandom(key_len), os.urandom(20)
        self.options = secgw.format(key=self.key.hex(":"), auth=self.auth_key.hex(":"))

    def association(self):
        keys = {"auth_algo": self.auth, "auth_key": self.auth_key} if self.auth else {}
        outer = IP(src=SOURCE, dst=DESTINATION)
        return SecurityAssociation(ESP, spi=SPI, crypt_algo=self.crypt, crypt_key=self.key, tunnel_header=outer, **keys)


HMAC = " auth_algo sha1-hmac auth_key {auth}"
SUITES = {
    # Four bytes of salt follow the key (RFC 4106, 4).
    "gcm": Suite("AES-128-GCM", "crypto_aesni_gcm", "AES-GCM", 20, "aead_algo aes-128-gcm aead_key {key}"),
    "cbc": Suite("AES-128-CBC, HMAC-SHA1-96", "crypto_aesni_mb", "AES-CBC", 16, "cipher_algo aes-128-cbc cipher_key {key}" + HMAC, "HMAC-SHA1-96"),
    "3des": Suite("3DES-CBC, HMAC-SHA1-96", "crypto_aesni_mb", "3DES", 24, "cipher_algo 3des-cbc cipher_key {key}" + HMAC, "HMAC-SHA1-96"),
}


class Gateway:
    """A running ipsec-secgw, and its telemetry."""

    def __init__(self, options, suite, direction, port):
        self.prefix = f"ciphermill-{os.getpid()}"
        self.log = os.path.join(options.scratch, "ipsec-secgw.log")
        config = os.path.join(options.scratch, "secgw.cfg")
        route = f"{DESTINATION}/32" if direction == "out" else f"{INSIDE}.0/24"
        with open(config, "w") as file:
            file.write(
                f"sp ipv4 {direction} esp protect {SPI} pri 1 dst {INSIDE}.0/24 sport 0:65535 dport 0:65535\n"
                f"sa {direction} {SPI} {suite.options} mode ipv4-tunnel src {SOURCE} dst {DESTINATION}\n"
                f"rt ipv4 dst {route} port 0\n"
            )
        memory = ["--in-memory", "-m", "512"] if options.pages == "huge" else ["--no-huge", "-m", "512"]
        command = [options.program, "-l", str(options.core), *memory, "--no-pci", "--file-prefix", self.prefix]
        command += ["--vdev", f"{suite.driver}0", "--vdev", f"net_pcap0,{port}", "--"]
        command += ["-p", "1", *(["-u", "1"] if direction == "in" else []), "-f", config, "-s", "8192", "--single-sa", "0"]
        command += ["--config", f"(0,0,{options.core})", "-t", "1"]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.socket = None

    def connect(self):
        """Telemetry is there before the ports are."""
        deadline = time.monotonic() + START_SECONDS
        while self.socket is None:
            self.alive(deadline)
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(START_SECONDS)
            try:
                connection.connect(f"/var/run/dpdk/{self.prefix}/dpdk_telemetry.v2")
                connection.recv(4096)
                self.socket = connection
            except OSError:
                connection.close()
                time.sleep(0.02)

    def alive(self, deadline):
        if self.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("ipsec-secgw did not start, or passed no packets")

    def counters(self):
        """The time, the packets received and sent, and what the port itself has lost."""
        before = time.monotonic()
        try:
            self.socket.send(b"/ethdev/stats,0")
            stats = json.loads(self.socket.recv(65536))["/ethdev/stats"]
        except (OSError, ValueError):
            raise RuntimeError("ipsec-secgw has ended, or does not answer") from None
        now = (before + time.monotonic()) / 2
        if stats is None:
            return now, 0, 0, 0
        lost = sum(stats[each] for each in ("imissed", "ierrors", "oerrors", "rx_nombuf"))
        return now, stats["ipackets"], stats["opackets"], lost

    def core_seconds(self):
        """How long its loop, which is its main thread, has had the core."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    def sent(self, at_least):
        """Waits for so many packets to have been sent."""
        deadline = time.monotonic() + START_SECONDS
        while self.counters()[2] < at_least:
            self.alive(deadline)
            time.sleep(0.02)

    def stop(self):
        """Ends it, and returns how many packets it has dropped since it started, from what it last printed."""
        if self.socket is not None:
            self.socket.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(f"/var/run/dpdk/{self.prefix}", ignore_errors=True)
        with open(self.log) as log:
            dropped = [line.split(":")[1] for line in log if line.startswith("Total packets dropped:")]
        return int(dropped[-1]) if dropped else None


def packets_of(scratch, suite_name, size):
    """Files of inner packets and of the same sealed, and the inner packets themselves."""
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    inner = [
        bytes(IP(src=f"192.168.115.{n % 200 + 1}", dst=f"{INSIDE}.{n % 200 + 1}") / UDP(sport=1000 + n, dport=2000) / os.urandom(size - 28))
        for n in range(PACKETS)
    ]
    association = SUITES[suite_name].association()
    plain, sealed = (os.path.join(scratch, f"{each}.pcap") for each in ("plain", "sealed"))
    wrpcap(plain, [ether / IP(packet) for packet in inner])
    wrpcap(sealed, [ether / association.encrypt(IP(packet)) for packet in inner])
    return plain, sealed, inner


def hop(packet):
    """The packet after one hop."""
    packet.ttl -= 1
    del packet.chksum
    return bytes(packet)


def compare(options, suite, direction, source, inner):
    """Every packet once through it: they have to be what scapy says they are."""
    sink = os.path.join(options.scratch, "sent.pcap")
    gateway = Gateway(options, suite, direction, f"rx_pcap={source},tx_pcap={sink}")
    try:
        gateway.connect()
        gateway.sent(PACKETS)
    finally:
        gateway.stop()
    association = suite.association()
    sent = [packet[IP] for packet in rdpcap(sink)]
    opened = [packet if direction == "in" else association.decrypt(packet) for packet in sent]
    # A gateway takes one from the hop count, before it seals or after it has opened, and changes nothing else.
    expected = [hop(IP(packet)) for packet in inner]
    if sorted(map(bytes, opened)) != sorted(expected):
        raise RuntimeError(f"{suite.title}, {direction}: the packets are not what they ought to be")


def measure(options, suite, direction, source):
    """Seconds, packets sent in them, packets lost since the start, and the share of the seconds that the core was its own."""
    gateway = Gateway(options, suite, direction, f"rx_pcap={source},infinite_rx=1")
    dropped = None
    try:
        gateway.connect()
        gateway.sent(1)
        time.sleep(WARM_UP_SECONDS)
        begin, _, sent_before, _ = gateway.counters()
        had_before = gateway.core_seconds()
        time.sleep(options.seconds)
        end, _, sent_after, lost = gateway.counters()
        had_after = gateway.core_seconds()
    finally:
        dropped = gateway.stop()
    if dropped is None:
        raise RuntimeError("ipsec-secgw has not said how many packets it dropped")
    return end - begin, sent_after - sent_before, lost + dropped, min(1.0, (had_after - had_before) / (end - begin))


def report(options, name, suite, direction, size, result):
    seconds, packets, lost, share = result
    mpps = packets / seconds / 1e6
    noise = "" if share >= UNDISTURBED else f" (disturbed: it had the core for {share:.0%} of the time)"
    print(f"{direction:3} {suite.title:26} {size:4} bytes: {mpps:7.3f} Mpps, {lost} lost in {packets} packets, {seconds:.2f} s{noise}")
    record = {"peer": "ipsec-secgw", "version": options.version, "name": name, "direction": direction, "suite": suite.title, "size": size}
    record |= {"mpps": round(mpps, 4), "packets": packets, "lost": lost, "seconds": round(seconds, 4), "core_share": round(share, 4), "core": options.core, "pages": options.pages}
    print(json.dumps(record), flush=True)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--pages", default="huge")
    for each in ("program", "version", "scratch"):
        parser.add_argument(f"--{each}", required=True)
    options = parser.parse_args()
    # It prints what it dropped once a second.
    if options.seconds < 1:
        parser.error("--seconds: at least 1")
    if options.core not in os.sched_getaffinity(0):
        parser.error(f"--core: there is no core {options.core}")
    return options


def main():
    options = arguments()
    done = 0
    for size in SIZES:
        for key, suite in SUITES.items():
            names = {way: f"{key}-{way}-{size}" for way in ("out", "in")}
            wanted = [way for way in names if not options.only or any(fnmatch.fnmatch(names[way], each) for each in options.only)]
            if not wanted:
                continue
            plain, sealed, inner = packets_of(options.scratch, key, size)
            for way in wanted:
                source = plain if way == "out" else sealed
                compare(options, suite, way, source, inner)
                report(options, names[way], suite, way, size, measure(options, suite, way, source))
                done += 1
    if done == 0:
        print(f"secgw: --only {' '.join(options.only)}: there is no such measurement", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
