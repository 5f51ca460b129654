"""Types of the native half."""

import os
from typing import Any, Dict, List, Optional, Tuple, Union

__version__: str

Path = Union[str, "os.PathLike[str]"]

class Keystore:
    @staticmethod
    def open(
        path: Path,
        *,
        key_file: Optional[Path] = None,
        passphrase: Optional[str] = None,
        passphrase_file: Optional[Path] = None,
        environment: Optional[str] = None,
    ) -> Keystore: ...
    @staticmethod
    def create(
        path: Path,
        *,
        key_file: Optional[Path] = None,
        passphrase: Optional[str] = None,
        passphrase_file: Optional[Path] = None,
        environment: Optional[str] = None,
    ) -> Keystore: ...
    def generate(self, name: str, *, suite: Optional[str] = None, description: str = "") -> Key: ...
    def import_key(self, name: str, key: bytes, *, suite: Optional[str] = None, description: str = "") -> Key: ...
    def rotate(self, name: str) -> Key: ...
    def key(self, name: str, version: Optional[int] = None) -> Key: ...
    def keys(self) -> List[Tuple[str, int, str, str]]: ...
    @property
    def path(self) -> str: ...

class Key:
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...

class ArrowArray:
    def __arrow_c_array__(self, requested_schema: Any = None) -> Tuple[Any, Any]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __len__(self) -> int: ...
    @property
    def type(self) -> str: ...

class ArrowStream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    @property
    def type(self) -> str: ...

class Columns:
    def __init__(
        self,
        key: Key,
        columns: Optional[Dict[str, Any]],
        types: Optional[Dict[str, Any]],
        manifest: Optional[Path],
        to: Optional[Key] = None,
        again: Optional[Dict[str, Any]] = None,
    ) -> None: ...
    def run(self, data: Any, encrypts: bool, only: Optional[List[str]], lazy: bool) -> Any: ...
    def columns(self) -> List[Tuple[str, str]]: ...

def adopt_folder(path: Path, key: Key, columns: Dict[str, Any], types: Dict[str, Any]) -> Tuple[Path, int]: ...
def column_spec(name: str, method: Any) -> Tuple[str, str]: ...
def run_batch(
    suite: str,
    encrypts: bool,
    keys: Any,
    nonces: Any,
    messages: Any,
    aad: Any,
    tag_len: Optional[int],
    out: Any,
    keeps_going: bool,
) -> Optional[List[Optional[bytes]]]: ...
def suite_shape(suite: str) -> Tuple[int, bool]: ...
