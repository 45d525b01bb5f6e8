"""Finds mistakes with the devices of tensors and processes: an unused result of .to(), a GPU selected by the wrong rank, CUDA in a
DataLoader worker."""

MAKES_TENSOR = {"torch." + name for name in
                "tensor as_tensor from_numpy zeros ones rand randn randint arange empty full eye linspace stack cat".split()}
KEEPS_ITERATING = {"enumerate", "tqdm", "tqdm.tqdm", "tqdm.auto.tqdm"}
DATASETS = {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"}


def is_loader(source, node, depth=0):
    if isinstance(node, ast.Call) and source.dotted(node.func) in KEEPS_ITERATING and node.args:
        node = node.args[0]
    if isinstance(node, ast.Name) and node.id in source.values and depth < 4:
        return is_loader(source, source.values[node.id], depth + 1)
    return isinstance(node, ast.Call) and source.dotted(node.func) == "torch.utils.data.DataLoader"


def tensors(source):
    """Names of variables that only hold tensors: created by torch, or taken from a DataLoader."""
    made = {name for name, values in source.assigned.items()
            if all(isinstance(one, ast.Call) and source.dotted(one.func) in MAKES_TENSOR for one in values)}
    for loop in source.all(ast.For):
        if is_loader(source, loop.iter):
            names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
            made.update(name for name in names if name not in source.assigned)
    return made


def dropped_moves(source):
    """Finds x.to("cuda") as a statement. It moves a module, but has no effect on a tensor."""
    found = tensors(source)
    for node in source.all(ast.Expr):
        call = node.value
        if isinstance(call, ast.Call) and method(call) in ("to", "cuda") and isinstance(call.func.value, ast.Name) and \
                call.func.value.id in found:
            source.mark(node, "move_dropped", call.func.value.id)


def device_counts(source):
    for call, name in source.calls:
        if name not in ("tensorflow.ConfigProto", "tensorflow.compat.v1.ConfigProto"):
            continue
        given = keyword(call, "device_count")
        if isinstance(given, ast.Dict) and any(
                constant(key) == "GPU" and constant(value) == "0" for key, value in zip(given.keys, given.values)):
            source.mark(call, "session_without_gpu")


def is_global_rank(source, node, depth=0):
    """Whether the node is the rank across all machines: RANK, or torch.distributed.get_rank()."""
    if depth > 4:
        return False
    if isinstance(node, ast.Name):
        return node.id in source.values and is_global_rank(source, source.values[node.id], depth + 1)
    if isinstance(node, ast.Subscript):
        return source.dotted(node.value) == "os.environ" and constant(node.slice) == "RANK"
    if not isinstance(node, ast.Call):
        return False
    name = source.dotted(node.func)
    if name in ("int", "str") and len(node.args) == 1:
        return is_global_rank(source, node.args[0], depth + 1)
    if name in ("os.environ.get", "os.getenv"):
        return bool(node.args) and constant(node.args[0]) == "RANK"
    return name == "torch.distributed.get_rank" and not node.args and not node.keywords


def has_global_rank(source, node, depth=0):
    """Whether the global rank is used as a device number, also in f"cuda:{rank}"."""
    if isinstance(node, ast.Name) and node.id in source.values and depth < 4 and not is_global_rank(source, node):
        return has_global_rank(source, source.values[node.id], depth + 1)
    if isinstance(node, ast.Call) and source.dotted(node.func) == "torch.device":
        return any(has_global_rank(source, one, depth + 1) for one in node.args)
    if isinstance(node, ast.JoinedStr):
        begin = node.values[0] if node.values else None
        return (constant(begin) or "").startswith("cuda:") and any(
            isinstance(one, ast.FormattedValue) and is_global_rank(source, one.value) for one in node.values)
    return is_global_rank(source, node)


def ranks(source):
    """Finds devices that are selected by the global rank. If the file also uses the local rank, or divides by the
    number of GPUs, the global rank is taken to be intended.

    A variable called local_rank does not count if its value is the global rank."""
    text = source.text
    for name, value in source.values.items():
        if is_global_rank(source, value):
            text = re.sub(rf"\b{re.escape(name)}\b", "", text)
    if re.search(r"local_rank|device_count", text, re.I):
        return
    for call, name in source.calls:
        given = []
        if name == "torch.cuda.set_device" or method(call) in ("to", "cuda"):
            given = call.args[:1] + [keyword(call, "device")]
        elif name == "torch.nn.parallel.DistributedDataParallel":
            ids = keyword(call, "device_ids")
            given = ids.elts if isinstance(ids, ast.List) else []
        if any(one is not None and has_global_rank(source, one) for one in given):
            source.mark(call, "rank_as_device")


def cuda_in_workers(source):
    """A DataLoader forks its workers, and CUDA cannot be used in a process forked after its initialization."""
    loaders = [call for call, name in source.calls if name == "torch.utils.data.DataLoader" and
               keyword(call, "num_workers") is not None and constant(keyword(call, "num_workers")) != "0" and
               keyword(call, "multiprocessing_context") is None]
    if not loaders or "spawn" in source.text:
        return
    for made in source.all(ast.ClassDef):
        if not any(source.dotted(base) in DATASETS for base in made.bases):
            continue
        for function in made.body:
            if not isinstance(function, ast.FunctionDef) or function.name not in ("__getitem__", "__iter__", "__getitems__"):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and starts_cuda(source, call, source.dotted(call.func)):
                    source.mark(call, "cuda_in_worker", "", loaders[0].lineno)
