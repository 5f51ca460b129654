"""What all tests share: a keystore with a key, in a folder of its own."""

import os

import pytest

import ciphermill


@pytest.fixture(scope="session")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "master.key"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(os.urandom(32))
    return path


@pytest.fixture(scope="session")
def keystore(tmp_path_factory, key_file):
    return ciphermill.Keystore.create(tmp_path_factory.mktemp("store") / "keys", key_file=key_file)


@pytest.fixture(scope="session")
def key(keystore):
    return keystore.generate("customers")
