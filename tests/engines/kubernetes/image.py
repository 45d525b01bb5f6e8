"""Makes the images of the test cluster as one docker-archive, from files of this machine: no registry is asked.

test.local/berth:1 holds what integrations/kubernetes/Dockerfile puts into a Debian (berth and berth-k8s, on glibc), busybox, and the test
program; test.local/berth:2 has other versions of Berth's programs; test.local/pause:1 is the sandbox of pods."""
import hashlib
import io
import json
import os
import tarfile

APPLETS = "sh sleep env ls cat echo test stat id grep mount head tail printf true false ps kill".split()
GLIBC = ("/lib64/ld-linux-x86-64.so.2", *(f"/lib/x86_64-linux-gnu/{name}" for name in
                                         ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")))
PAUSE = b"#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 86400 & wait $!; done\n"


def entry(tar, name, data=None, mode=0o755, link=None):
    info = tarfile.TarInfo(name.lstrip("/"))
    info.mode = mode
    if link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, link
        tar.addfile(info)
    elif data is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def content(path):
    with open(path, "rb") as file:
        return file.read()


def layer_of(programs):
    """A layer that replaces programs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in programs:
            entry(tar, "usr/local/bin/" + os.path.basename(path), content(path))
    return out.getvalue()


def layer(busybox, programs):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in "bin dev etc lib lib/x86_64-linux-gnu lib64 proc root run sys usr usr/local usr/local/bin var var/lib".split():
            entry(tar, folder)
        entry(tar, "tmp", mode=0o1777)
        entry(tar, "bin/busybox", content(busybox))
        for name in APPLETS:
            entry(tar, f"bin/{name}", link="busybox")
        for path in GLIBC:
            entry(tar, path, content(os.path.realpath(path)))
        for path in programs:
            entry(tar, "usr/local/bin/" + os.path.basename(path), content(path))
        entry(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)
        entry(tar, "pause", PAUSE)
    return out.getvalue()


def write(path, busybox, programs, newer):
    """`newer`: the programs that test.local/berth:2 has in place of those of test.local/berth:1."""
    layers = [layer(busybox, programs), layer_of(newer)]
    digests = [hashlib.sha256(data).hexdigest() for data in layers]
    rows = []
    with tarfile.open(path, "w") as tar:
        for number, data in enumerate(layers):
            entry(tar, f"layer{number}.tar", data, 0o644)
        for name, start, count in (("test.local/berth:1", ["/usr/local/bin/berth"], 1), ("test.local/berth:2", ["/usr/local/bin/berth"], 2),
                                   ("test.local/pause:1", ["/pause"], 1)):
            config = json.dumps({"architecture": "amd64", "os": "linux",
                                 "rootfs": {"type": "layers", "diff_ids": ["sha256:" + one for one in digests[:count]]},
                                 "config": {"Env": ["PATH=/usr/local/bin:/bin"], "Entrypoint": start}}).encode()
            file = hashlib.sha256(config).hexdigest() + ".json"
            entry(tar, file, config, 0o644)
            rows.append({"Config": file, "Layers": [f"layer{number}.tar" for number in range(count)], "RepoTags": [name]})
        entry(tar, "manifest.json", json.dumps(rows).encode(), 0o644)
