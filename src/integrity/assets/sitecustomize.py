"""Waits for a test runner to be imported; the project's own `sitecustomize` runs as ever."""


def _chain():
    """Runs the module that this one hides."""
    import importlib.machinery
    import importlib.util
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        mine = sys.modules.get("sitecustomize")
        sys.modules["sitecustomize"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules["sitecustomize"] = mine
            raise


def _install():
    import os
    import sys

    if sys.version_info < (3, 7) or not os.environ.get("LOOPEXEC_RESULTS"):
        return

    def pytest(module):
        manager = module.PytestPluginManager
        consider = manager.consider_env
        prepare = module._prepareconfig

        def consider_env(self):
            consider(self)
            try:
                import loopexec_pytest

                if not self.is_registered(loopexec_pytest):
                    self.register(loopexec_pytest, "loopexec_pytest")
            except Exception:
                pass

        def _prepareconfig(*args, **kwargs):
            try:
                return prepare(*args, **kwargs)
            except Exception as error:
                try:
                    import loopexec_pytest

                    loopexec_pytest.refused(error)
                except Exception:
                    pass
                raise

        manager.consider_env = consider_env
        module._prepareconfig = _prepareconfig

    def rewrite(module):
        import ast

        import loopexec_results

        rewriter = module.AssertionRewriter
        visit = rewriter.visit_Assert
        # What calls us must never be read back by a run without us: it is kept under another name.
        module.PYC_TAIL = module.PYC_TAIL[: -len(".pyc")] + "-loopexec.pyc"
        module._loopexec_hold = loopexec_results.hold

        def visit_Assert(self, node):
            statements = visit(self, node)
            try:
                name = ast.Name("@pytest_ar", ast.Load())
                call = ast.Call(ast.Attribute(name, "_loopexec_hold", ast.Load()), [], [])
                held = ast.copy_location(ast.Expr(call), node)
                return list(statements) + [ast.fix_missing_locations(held)]
            except Exception:
                return statements

        rewriter.visit_Assert = visit_Assert
        try:
            support(module.AssertionRewritingHook)
        except Exception:
            pass

    def support(hook):
        """Has assertions counted in what stands beside tests as well: pytest looks at tests and plugins alone."""
        top = os.getcwd()
        skipped = ("node_modules", "site-packages", "venv", "target")

        def stands_beside(path):
            try:
                inside = os.path.relpath(str(path), top).split(os.sep)
            except Exception:
                return False
            return (
                inside[-1].endswith(".py")
                and ".." not in inside
                and not any(part in skipped or part.startswith(".") for part in inside[:-1])
                and any(part in ("tests", "test") for part in inside[:-1])
            )

        names = set()
        left = 2000
        for folder, folders, files in os.walk(top):
            left -= 1
            if left < 0:
                break
            depth = os.path.relpath(folder, top).count(os.sep)
            keep = [one for one in folders if one not in skipped and not one.startswith(".")]
            folders[:] = keep if depth < 5 else []
            names.update(one[:-3] for one in files if stands_beside(os.path.join(folder, one)))
        should, early = hook._should_rewrite, hook._early_rewrite_bailout

        def _should_rewrite(self, name, fn, state):
            return should(self, name, fn, state) or stands_beside(fn)

        def _early_rewrite_bailout(self, name, state):
            return name.rpartition(".")[2] not in names and early(self, name, state)

        hook._should_rewrite = _should_rewrite
        hook._early_rewrite_bailout = _early_rewrite_bailout

    def suite(module):
        import loopexec_unittest

        loopexec_unittest.patch_suite(module)

    def case(module):
        import loopexec_unittest

        loopexec_unittest.patch_case(module)

    wanted = {
        "_pytest.config": pytest,
        "_pytest.assertion.rewrite": rewrite,
        "unittest.suite": suite,
        "unittest.case": case,
    }

    def shadowed():
        """Says so where `python -m pytest` runs a module of that name that is not pytest."""
        try:
            import importlib.machinery

            words = getattr(sys, "orig_argv", [])
            if ("-m", "pytest") not in zip(words, words[1:]):
                return
            spec = importlib.machinery.PathFinder.find_spec("pytest")
            if spec is None or not spec.origin:
                return
            folder = os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))
            if os.path.basename(spec.origin) == "__init__.py" and os.path.isdir(os.path.join(folder, "_pytest")):
                return
            import loopexec_results

            if loopexec_results.claim("pytest"):
                loopexec_results.emit(k="problem", m="incomplete: pytest is %s, which is not pytest." % spec.origin)
        except Exception:
            pass

    class Loader(object):
        """The module's own loader, and a call once the module is there."""

        def __init__(self, loader, patch):
            self._loader = loader
            self._patch = patch

        def __getattr__(self, name):
            return getattr(self._loader, name)

        def create_module(self, spec):
            return self._loader.create_module(spec)

        def exec_module(self, module):
            self._loader.exec_module(module)
            try:
                module.__spec__.loader = self._loader
                module.__loader__ = self._loader
                self._patch(module)
            except Exception:
                pass

    class Finder(object):
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "pytest" and path is None:
                shadowed()
            patch = wanted.pop(name, None)
            if patch is None:
                return None
            try:
                for finder in sys.meta_path:
                    if finder is Finder or not hasattr(finder, "find_spec"):
                        continue
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        if hasattr(spec.loader, "exec_module"):
                            spec.loader = Loader(spec.loader, patch)
                        return spec
            except Exception:
                pass
            return None

    sys.meta_path.insert(0, Finder)


try:
    _install()
except Exception:
    pass

_chain()
