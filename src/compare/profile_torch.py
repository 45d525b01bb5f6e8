# `berth compare --profile` runs this after `import torch`, with the variables `torch` and `folder` set. When the program ends, it writes the slowest operators
# to a file in the folder. If this fails, there is no file, and the program is not disturbed.


def _profile(torch, folder):
    import atexit
    import os
    from torch import profiler
    profile = profiler.profile()
    profile.start()
    pid = os.getpid()

    def seconds(one, *names):
        for name in names:  # PyTorch 2.4 renamed "cuda" to "device"
            value = getattr(one, name, None)
            if value is not None:
                return value / 1e6
        return 0.0

    def write():
        if os.getpid() != pid:
            return
        import json
        try:
            profile.stop()
            rows = [{"name": one.key, "calls": one.count, "cpu_seconds": seconds(one, "self_cpu_time_total"),
                     "device_seconds": seconds(one, "self_device_time_total", "self_cuda_time_total")} for one in profile.key_averages()]
            rows.sort(key=lambda row: -row["cpu_seconds"] - row["device_seconds"])
            draft = os.path.join(folder, "draft-%d" % pid)
            with open(draft, "w") as file:
                json.dump({"operators": rows[:40]}, file)
            os.rename(draft, os.path.join(folder, "operators-%d.json" % pid))
        except Exception:
            pass

    atexit.register(write)


try:
    _profile(torch, folder)  # noqa: F821
except Exception:
    pass
