"""A pytest plugin that writes collected ids, outcomes and collection errors.

Registered by `sitecustomize` beside it, never by a variable that names it: where this folder is not
on the path, pytest must not look for it.
"""
import os

import pytest

import loopexec_results as results

_tests = {}
_collected = {"done": False}


def _safe(function):
    def guarded(*args):
        try:
            if results.claim("pytest"):
                function(*args)
        except Exception:
            pass

    return guarded


@_safe
def _collection(ids):
    if not _collected["done"]:
        _collected["done"] = True
        for nodeid in ids:
            results.emit(k="collect", id=nodeid)


def pytest_sessionstart(session):
    if not _is_worker(session.config):
        _collected["done"] = False
        results.claim("pytest")


def pytest_collection_finish(session):
    if _is_worker(session.config):
        return
    items = getattr(session, "items", None)
    if items:
        _collection([item.nodeid for item in items])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    _collection(ids)


def pytest_collectreport(report):
    if report.failed:
        _broken("%s: %s" % (report.nodeid, _text(report)))


def pytest_internalerror(excrepr):
    _broken("pytest failed: %s" % (excrepr,))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _collected["held"] = results.held()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    try:
        # An attribute of the report comes along from a worker of xdist.
        report = outcome.get_result()
        report.loopexec_held = results.held() - _collected.get("held", 0)
    except Exception:
        pass


def pytest_runtest_logreport(report):
    _report(report)


def pytest_runtest_logfinish(nodeid, location):
    _flush(nodeid)


def pytest_sessionfinish(session, exitstatus):
    if not _is_worker(session.config):
        _finish(int(exitstatus))


def _is_worker(config):
    return hasattr(config, "workerinput") or hasattr(config, "slaveinput")


@_safe
def _broken(message):
    results.emit(k="broken", m=message)


@_safe
def _report(report):
    if report.outcome == "rerun":
        _tests.pop(report.nodeid, None)
        return
    test = _tests.setdefault(report.nodeid, {"o": None, "m": None, "f": None, "l": None, "a": None})
    if report.failed:
        if test["o"] != "failed":
            test["o"] = "failed"
            test["m"] = _text(report)
            test["f"], test["l"] = _place(report)
    elif test["o"] != "failed":
        if report.when == "call" or (report.when == "setup" and report.skipped):
            test["o"] = "skipped" if report.skipped else "passed"
            test["a"] = getattr(report, "loopexec_held", None) if report.passed else None
        elif report.when not in ("setup", "teardown") and report.skipped:
            test["o"] = "skipped"


@_safe
def _flush(nodeid):
    test = _tests.pop(nodeid, None)
    if test and test["o"]:
        if test["o"] != "passed":
            test["a"] = None
        results.emit(k="result", id=nodeid, **test)


@_safe
def _finish(status):
    # A crashed xdist worker reports its test and never finishes it.
    for nodeid in sorted(_tests):
        _flush(nodeid)
    if status == 4:
        results.emit(k="broken", m="pytest refused its arguments or configuration (exit 4).")
    elif status == 5:
        results.emit(k="broken", m="pytest collected no test (exit 5).")
    results.emit(k="end", rc=status)


def _text(report):
    text = getattr(report, "longreprtext", None)
    if not text:
        text = str(report.longrepr)
    return text


def _place(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    location = getattr(report, "location", None)
    if crash is not None:
        path = str(crash.path)
        inside = os.path.abspath(path).startswith(os.getcwd() + os.sep)
        if inside or not location:
            return path, int(crash.lineno)
    if location:
        return location[0], (location[1] + 1 if location[1] is not None else None)
    return None, None


def refused(error):
    """Records that pytest did not come as far as a session."""
    if results.claim("pytest"):
        results.emit(k="broken", m="pytest refused to start: %s: %s" % (type(error).__name__, error))
        results.emit(k="end", rc=4)
