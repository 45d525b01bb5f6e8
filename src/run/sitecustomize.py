# Berth writes this file into the folder that BERTH_STACKS names, and adds its folder to PYTHONPATH. With it, `berth stacks` and the detection
# of hangs get this process's Python stacks, by a signal that nothing else uses. It never changes how the program runs: on any problem it does
# nothing.


def _listen(known=[]):
    import faulthandler
    import os
    import signal
    number = signal.SIGRTMIN + 7
    if signal.getsignal(number) is not signal.SIG_DFL and not known:
        return  # the program's parent ignores or uses this signal
    path = os.path.join(os.environ["BERTH_STACKS"], "%d.txt" % os.getpid())
    file = open(path, "w")
    # Keep the file object: faulthandler has only the number of the descriptor.
    known[:] = [file]
    faulthandler.register(number, file=file, all_threads=True, chain=False)


def _begin():
    import os
    import sys
    try:
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_listen_again)
        _listen()
    except Exception:
        pass
    # This module hides any other module with the name sitecustomize. Run the hidden module too, as Python would without Berth.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as problem:
        if getattr(problem, "name", None) != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


def _listen_again():
    try:
        _listen()
    except Exception:
        pass


_begin()
