# `berth compare --preset` writes this file as sitecustomize.py into a folder of PYTHONPATH. After the program has imported torch, the file runs the statement
# in the variable BERTH_AFTER_TORCH once, and creates a file "applied" in its own folder. Programs that do not import torch are not changed.
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _AfterTorch:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def execute_and_set(module):
            execute(module)
            exec(os.environ["BERTH_AFTER_TORCH"], {"torch": module, "folder": _HERE})
            open(os.path.join(_HERE, "applied"), "w").close()

        spec.loader.exec_module = execute_and_set
        return spec


def _begin():
    sys.meta_path.insert(0, _AfterTorch())
    # The environment may have a sitecustomize module of its own, which this file hides. Load it without this folder in the path.
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _HERE]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as problem:
        if getattr(problem, "name", None) != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


_begin()
