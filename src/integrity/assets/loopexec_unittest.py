"""Watches unittest: what suites hold, and what results of any class are told."""
import functools

import loopexec_results as results

# Frames of this module are left out of tracebacks, as unittest's own are.
__unittest = True

_running = {}
_depth = {"suite": 0, "assert": 0}
_OUTCOMES = {
    "addSuccess": "passed",
    "addError": "failed",
    "addFailure": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "failed",
    "addSubTest": "failed",
}


def patch_suite(module):
    """Wraps `TestSuite.run` of `unittest.suite`."""
    original = module.TestSuite.run

    def run(self, result, *args, **kwargs):
        outermost = _depth["suite"] == 0
        ours = _begin(self, result, outermost)
        _depth["suite"] += 1
        try:
            return original(self, result, *args, **kwargs)
        finally:
            _depth["suite"] -= 1
            if ours and outermost:
                results.emit(k="end")

    module.TestSuite.run = run


def patch_case(module):
    """Wraps `TestCase.run` of `unittest.case`."""
    original = module.TestCase.run

    def run(self, result=None, *args, **kwargs):
        ours = _enter(self, result)
        try:
            return original(self, result, *args, **kwargs)
        finally:
            if ours:
                _leave(self)

    module.TestCase.run = run
    for name in dir(module.TestCase):
        method = getattr(module.TestCase, name)
        if name.startswith("assert") and callable(method):
            setattr(module.TestCase, name, _counted(method))


def _counted(method):
    """Counts one assertion a call from outside: some call others."""

    @functools.wraps(method)
    def counted(*args, **kwargs):
        _depth["assert"] += 1
        try:
            value = method(*args, **kwargs)
        finally:
            _depth["assert"] -= 1
        if _depth["assert"] == 0:
            results.hold()
        return value

    return counted


def _is_result(result):
    from unittest.result import TestResult

    return isinstance(result, TestResult)


def _begin(suite, result, outermost):
    try:
        if not _is_result(result) or not results.claim("unittest"):
            return False
        _instrument(type(result))
        if outermost:
            for test in _flat(suite):
                if type(test).__name__ == "_FailedTest":
                    continue
                results.emit(k="collect", id=test.id())
        return True
    except Exception:
        return False


def _flat(suite):
    stack = [iter(suite)]
    while stack:
        for test in stack[-1]:
            if test is None:
                continue
            if hasattr(test, "__iter__"):
                stack.append(iter(test))
                break
            if hasattr(test, "id"):
                yield test
        else:
            stack.pop()


def _enter(case, result):
    try:
        if result is None or not _is_result(result) or not results.claim("unittest"):
            return False
        _instrument(type(result))
        _running[id(case)] = {"o": None, "m": None, "f": None, "l": None, "a": results.held()}
        return True
    except Exception:
        return False


def _leave(case):
    try:
        seen = _running.pop(id(case), None)
        if not seen or not seen["o"]:
            return
        seen["a"] = results.held() - seen["a"] if seen["o"] == "passed" else None
        if type(case).__name__ == "_FailedTest":
            results.emit(k="broken", m="%s: %s" % (case.id(), seen["m"]))
        else:
            results.emit(k="result", id=case.id(), **seen)
    except Exception:
        pass


def _instrument(cls):
    """Wraps the methods as this class has them: a subclass need not call its base."""
    if cls.__dict__.get("_loopexec"):
        return
    for name, outcome in _OUTCOMES.items():
        original = getattr(cls, name, None)
        if original is not None:
            setattr(cls, name, _told(original, outcome))
    cls._loopexec = True


def _told(original, outcome):
    def method(self, *args, **kwargs):
        try:
            _note(outcome, args)
        except Exception:
            pass
        return original(self, *args, **kwargs)

    return method


def _note(outcome, args):
    if not results.claim("unittest"):
        return
    test = args[0]
    error = args[-1] if len(args) > 1 else None
    if len(args) == 3 and args[2] is None:
        # A subtest that passed.
        return
    message, path, line = _explain(error) if outcome == "failed" else (None, None, None)
    seen = _running.get(id(test))
    if seen is None:
        # `setUpClass` and `setUpModule`, or results that another process ran.
        results.emit(k="result", id=test.id(), o=outcome, m=message, f=path, l=line)
    elif seen["o"] != "failed":
        # A skipped subtest does not skip its test; what comes last decides.
        seen.update(o=outcome, m=message, f=path, l=line)


def _explain(error):
    if not (isinstance(error, tuple) and len(error) == 3):
        return ("the test passed and was expected to fail" if error is None else str(error)), None, None
    import traceback

    frames = []
    trace = error[2]
    while trace is not None:
        if "__unittest" not in trace.tb_frame.f_globals:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    last = "".join(traceback.format_exception_only(error[0], error[1]))
    message = "".join('  File "%s", line %d\n' % frame for frame in frames[-8:]) + last
    path, line = frames[-1] if frames else (None, None)
    return message, path, line
