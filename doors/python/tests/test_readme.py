"""The example of the front page runs as it stands there."""

import os
import pathlib
import re


def test_the_front_page(tmp_path, monkeypatch):
    readme = pathlib.Path(__file__).parents[3] / "README.md"
    (example,) = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with open(os.open("master.key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(os.urandom(32))
    names = {}
    exec(example, names)
    assert names["stored"]["name"].to_pylist() != names["table"]["name"].to_pylist()
