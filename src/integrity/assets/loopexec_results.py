"""Writes what a Python test runner says as JSON lines, for `jsonl` to read.

Nothing here may disturb the run it watches: every failure of ours is swallowed. Runs on Python 3.7
and later; older ones leave quietly.
"""
import json
import os
import time

FOLDER = "LOOPEXEC_RESULTS"
OWNER = "LOOPEXEC_RESULTS_OWNER"
_state = {"fd": None, "pid": None, "kind": None}
# How many assertions held so far in this process.
_held = [0]


def hold():
    """Counts an assertion that held."""
    _held[0] += 1


def held():
    """Returns how many assertions held so far."""
    return _held[0]


def claim(kind):
    """Says whether this process writes the results of `kind`; the first runner of a process does.

    A process below one that writes does not: tests that run a runner must not look like tests.
    """
    try:
        pid = os.getpid()
        if _state["pid"] is not None:
            return _state["pid"] == pid and _state["kind"] == kind
        folder = os.environ.get(FOLDER)
        owner = os.environ.get(OWNER)
        if not folder or (owner and owner != str(pid)) or os.environ.get("PYTEST_XDIST_WORKER"):
            return False
        name = "%020d-%d-%s.jsonl" % (int(time.time() * 1e9), pid, kind)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        _state["fd"] = os.open(os.path.join(folder, name), flags, 0o644)
        _state["pid"] = pid
        _state["kind"] = kind
        os.environ[OWNER] = str(pid)
        emit(k="start", runner=kind, cwd=os.getcwd())
        return True
    except Exception:
        return False


def emit(**record):
    """Writes one record at once, so that it survives whatever the process does next."""
    try:
        if _state["pid"] != os.getpid():
            return
        record = dict((key, _clean(value)) for key, value in record.items() if value is not None)
        data = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        while data:
            data = data[os.write(_state["fd"], data):]
    except Exception:
        pass


def _clean(value):
    if not isinstance(value, str):
        return value
    if len(value) > 6000:
        value = value[:4000] + "\n[...]\n" + value[-1900:]
    return value.encode("utf-8", "replace").decode("utf-8")
