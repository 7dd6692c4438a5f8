"""``ocictl cp``: errors of files on the host."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from ociruntime.manager.client.main import main

_ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",  # the container exists
    b'HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"kind": "directory"}',  # its path, too
)


def _serve(listener: socket.socket) -> None:
    for answer in _ANSWERS:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(answer)
    sock, _ = listener.accept()
    with sock:
        while sock.recv(65536):
            pass


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The file vanishes between the listing of its directory and the copy."""
    (tmp_path / "site").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen(3)
        listener.settimeout(10)
        thread = threading.Thread(target=_serve, args=(listener,))
        thread.start()
        monkeypatch.setattr(os, "listdir", lambda _: ["gone"])
        try:
            status = main([f"--socket={tmp_path}/sock", "cp", f"{tmp_path}/site", "c:/d"])
        finally:
            thread.join()
    out, err = capfd.readouterr()
    assert (status, out) == (1, "")
    assert err == f'ocictl: copy "{tmp_path}/site/gone": no such file or directory\n'
