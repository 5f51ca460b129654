"""Keystores and keys: opened, shown, refused, and never taken along."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

import ciphermill
from ciphermill import Keystore, Misuse, Protector, Refused


def test_keys_by_name(keystore, key_file):
    first = keystore.generate("listed", description="for a test")
    assert ("listed", 1, "active", "for a test") in keystore.keys()
    again = Keystore.open(keystore.path, key_file=key_file).key("listed")
    assert (again.name, again.version) == (first.name, first.version) == ("listed", 1)
    with pytest.raises(Misuse, match="nobody"):
        keystore.key("nobody")
    with pytest.raises(Misuse):
        keystore.generate("listed")


def test_secrets(tmp_path, keystore, key_file):
    for secrets in ({}, {"key_file": key_file, "passphrase": "x"}):
        with pytest.raises(Misuse, match="give one of"):
            Keystore.open(keystore.path, **secrets)
    other = tmp_path / "other"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    with pytest.raises(Refused):
        Keystore.open(keystore.path, key_file=other)
    other.chmod(0o644)
    with pytest.raises(Refused, match="644"):
        Keystore.open(keystore.path, key_file=other)
    with pytest.raises(FileNotFoundError):
        Keystore.open(tmp_path / "none", key_file=key_file)
    with pytest.raises(Misuse):
        Keystore.create(keystore.path, key_file=key_file)
    with pytest.raises(Misuse, match="15 characters"):
        Keystore.create(tmp_path / "weak", passphrase="short")


def test_a_variable_and_a_passphrase_file(tmp_path, monkeypatch):
    monkeypatch.setenv("A_MASTER_KEY", os.urandom(32).hex())
    keystore = Keystore.create(tmp_path / "by-variable", environment="A_MASTER_KEY")
    keystore.generate("k")
    assert Keystore.open(tmp_path / "by-variable", environment="A_MASTER_KEY").key("k").version == 1
    words = tmp_path / "words"
    words.write_text("four random words here\n")
    words.chmod(0o600)
    Keystore.create(tmp_path / "by-words", passphrase_file=words)
    Keystore.open(tmp_path / "by-words", passphrase="four random words here")


def test_nothing_shows_or_pickles_keys(keystore, key):
    protector = Protector(key, {"a": "random"})
    for thing in (keystore, key, protector):
        for take in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled"):
                take(thing)
        assert len(repr(thing)) < 300
    assert repr(key) == "<ciphermill.Key customers version 1>"


def test_errors_are_pickled_whole():
    error = pickle.loads(pickle.dumps(ciphermill.NotAuthentic("no", column="c", row=7)))
    assert (str(error), error.column, error.row, type(error)) == ("no", "c", 7, ciphermill.NotAuthentic)
    assert isinstance(error, Refused) and isinstance(error, ciphermill.CiphermillError)


def child(path, key_file, stored, queue):
    keystore = Keystore.open(path, key_file=key_file)
    queue.put(Protector(keystore.key("customers")).unprotect(stored)["a"].to_pylist())


@pytest.mark.filterwarnings("ignore:This process")
def test_a_stream_that_is_there_when_the_process_forks(key):
    """The child gets an error from it and ends well: it touches no key of its parent, not even to drop it."""
    stream = pa.RecordBatchReader.from_stream(Protector(key, {"a": "random"}).protect_stream(pa.table({"a": ["x"]})))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            stream.read_all()
        except Exception as error:
            code = 7 if "forked" in str(error) else 2
        try:
            del stream
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert stream.read_all().num_rows == 1


@pytest.mark.filterwarnings("ignore:This process")
def test_forked_processes_open_the_keystore_themselves(keystore, key, key_file):
    protector = Protector(key, {"a": "random"})
    stored = protector.protect(pa.table({"a": ["x", "y"]}))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            protector.protect(pa.array(["z"]))
        except Misuse as error:
            code = 7 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=child, args=(keystore.path, key_file, stored, queue))
    worker.start()
    assert queue.get(timeout=60) == ["x", "y"]
    worker.join()
    assert worker.exitcode == 0, "a child that inherits keys ends well"
    assert protector.unprotect(stored)["a"].to_pylist() == ["x", "y"]


def test_threads_share_a_protector(key):
    protector = Protector(key, {"a": "deterministic"})
    arrays = [pa.array([f"{thread}-{row}" for row in range(5000)]) for thread in range(8)]
    wanted = [protector.protect(array) for array in arrays]
    got = [None] * 8

    def work(at):
        for _ in range(20):
            got[at] = protector.unprotect(protector.protect(arrays[at]))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.equals(array) for one, array in zip(got, arrays))
    assert [protector.protect(array) for array in arrays] == wanted


def test_the_lock_of_the_interpreter_is_released(key):
    """While one thread protects a long array, another goes on."""
    protector = Protector(key, {"a": "random"})
    array = pa.array([f"{row:040}" for row in range(1_000_000)])

    def longest_halt():
        """How long another thread stood still meanwhile, as a share of the time that it took."""
        gaps, ended = [0.0], threading.Event()

        def go_on():
            last = time.perf_counter()
            while not ended.is_set():
                now = time.perf_counter()
                gaps[0], last = max(gaps[0], now - last), now

        other = threading.Thread(target=go_on)
        other.start()
        try:
            start = time.perf_counter()
            protector.protect(array)
            took = time.perf_counter() - start
        finally:
            ended.set()
            other.join()
        return gaps[0] / took

    # A busy machine may halt a thread for a while; the lock would halt it each time, and all the time.
    shares = [longest_halt() for _ in range(5)]
    assert min(shares) < 0.6, shares


def test_threads_are_named_by_a_variable():
    code = "import ciphermill; print(ciphermill.digest_many('sha256', [b'abc'])[0].hex())"
    run = lambda value: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], env={**os.environ, "CIPHERMILL_THREADS": value}, capture_output=True, text=True
    )
    assert run("0").stdout.startswith("ba7816bf")
    assert "CIPHERMILL_THREADS is a number" in run("many").stderr


def test_no_library_is_imported_that_was_not_there():
    code = (
        "import sys, ciphermill\n"
        "assert not {'pyarrow', 'polars', 'pandas', 'numpy', 'duckdb', 'pyspark'} & set(sys.modules), sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_help_documents_everything():
    for name in ciphermill.__all__:
        thing = getattr(ciphermill, name)
        if name != "__version__":
            assert thing.__doc__ and len(thing.__doc__) > 30, name
    for thing in (Keystore, ciphermill.Key, Protector):
        for name, member in vars(thing).items():
            if not name.startswith("_"):
                assert member.__doc__, f"{thing.__name__}.{name}"
