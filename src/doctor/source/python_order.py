"""Finds marks that depend on the order of execution, and on enclosing loops and exception handlers."""
import builtins

STARTS = {"torch.cuda." + name for name in (
    "init current_device get_device_name get_device_properties get_device_capability mem_get_info synchronize "
    "set_device").split()}
ASKS = {"torch.cuda.is_available", "torch.cuda.device_count"}
# Calls of other frameworks that initialize CUDA. CUDA reads CUDA_VISIBLE_DEVICES only when it is initialized.
OTHER_STARTS = {"tensorflow." + name for name in (
    "constant Variable zeros ones eye fill linspace convert_to_tensor Session compat.v1.Session InteractiveSession "
    "config.list_physical_devices config.list_logical_devices config.get_visible_devices "
    "config.experimental.list_physical_devices config.experimental.list_logical_devices test.is_gpu_available "
    "test.gpu_device_name python.client.device_lib.list_local_devices random.normal random.uniform").split()} | {
    "jax." + name for name in (
    "devices local_devices device_count local_device_count default_backend device_put random.PRNGKey random.key "
    "numpy.array numpy.asarray numpy.zeros numpy.ones numpy.arange numpy.eye numpy.full numpy.linspace").split()} | {
    "cupy." + name for name in (
    "array asarray zeros ones empty full arange eye linspace random.rand random.randn random.random random.normal "
    "cuda.runtime.getDeviceCount cuda.runtime.getDeviceProperties").split()} | {
    "numba.cuda." + name for name in (
    "to_device device_array device_array_like pinned_array select_device get_current_device current_context detect "
    "synchronize").split()} | {"pycuda.driver.init"}
KERAS = re.compile(r"(tensorflow\.)?keras\.")
TRAINERS = ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer")
STARTS_CHILD = re.compile(
    r"(subprocess|multiprocessing|torch\.multiprocessing|concurrent\.futures)\.|os\.(system|popen|spawn|exec|posix_spawn|fork)|"
    r"asyncio\.create_subprocess|ray\.|joblib\.|pexpect\.")
BUILTINS = set(dir(builtins))
POOLED = ("map", "imap", "imap_unordered", "map_async", "starmap", "starmap_async", "apply", "apply_async", "submit")
CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.ExceptHandler, ast.Match, ast.comprehension) + LOOPS
MOST_BRANCHES = 200  # limit for one scope; real programs have fewer
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def names_cuda(source, node):
    return source.begins(device_of(source, node))[0].startswith("cuda")


def may_name_cuda(source, node):
    """Whether the expression can be a CUDA device: "cuda" if torch.cuda.is_available() else "cpu"."""
    device = device_of(source, node)
    return isinstance(device, ast.IfExp) and (names_cuda(source, device.body) or names_cuda(source, device.orelse))


def makers(source, node):
    """All calls whose results are assigned to the name. Empty if something other than the result of a call is assigned to it."""
    if not isinstance(node, ast.Name):
        return []
    made = source.assigned.get(node.id, [])
    return made if all(isinstance(one, ast.Call) for one in made) else []


def trains(source, call):
    """Whether the call is a framework's own training loop, which uses the GPU if there is one."""
    what = method(call)
    made = makers(source, call.func.value) if what in ("fit", "predict", "evaluate", "train_on_batch", "train", "validate", "test") else []
    names = [source.dotted(one.func) for one in made]
    if not made:
        return False
    if what in ("fit", "predict", "evaluate", "train_on_batch") and all(KERAS.match(name) for name in names):
        return True
    if what in ("fit", "validate", "test", "predict") and all(name in TRAINERS for name in names):
        return not any(constant(keyword(one, "accelerator")) == "cpu" for one in made)
    return what in ("train", "predict", "evaluate") and all(name == "transformers.Trainer" for name in names) and \
        not re.search(r"no_cuda|use_cpu", source.text)


def starts_cuda(source, call, name):
    """Whether the call certainly initializes CUDA in this process."""
    if name in STARTS or name in OTHER_STARTS:
        return not (call.args and cpu_device(source, call.args[0]))
    if name == "onnxruntime.InferenceSession":
        given = keyword(call, "providers")
        return isinstance(given, (ast.List, ast.Tuple)) and bool(given.elts) and constant(given.elts[0]) == "CUDAExecutionProvider"
    if method(call) == "cuda" and not name.startswith("torch.") or trains(source, call):
        return True
    device = keyword(call, "device")
    if name == "transformers.pipeline" and device is not None:
        return names_cuda(source, device) or (constant(device) or "").isdigit()
    if method(call) == "to":
        return any(one is not None and names_cuda(source, one) for one in [*call.args[:1], device])
    if name in ("torch.load", "torch.jit.load") and keyword(call, "map_location") is not None:
        device = keyword(call, "map_location")
    return name.startswith("torch.") and device is not None and names_cuda(source, device)


def unconditional(leaves, nodes):
    """The first of the nodes that is executed whenever their function is called. `leaves`: statements such as return that may end the function earlier."""
    first_leaf = min((one.lineno for one in leaves), default=None)
    for node in sorted(nodes, key=lambda one: one.lineno):
        around = [parent for _, parent in climb(node)]
        if (first_leaf is None or first_leaf >= node.lineno) and \
                not any(isinstance(one, (ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.Match, ast.comprehension) + LOOPS)
                        for one in around):
            return node
    return None


def by_scope(nodes):
    """A dictionary from the id of a scope to the nodes that run in it."""
    scopes = {}
    for node in nodes:
        scopes.setdefault(id(scope_of(node)), []).append(node)
    return scopes


def with_calls(source, found):
    """Pairs of (node, found node): each found node with itself, and each call of a function in this file that always executes a found node,
    with that node."""
    made, called = {}, {}
    for one in source.all(ast.FunctionDef):
        made.setdefault(one.name, []).append(one)
    for call, _ in source.calls:
        if isinstance(call.func, ast.Name) and call.func.id in made:
            called.setdefault(call.func.id, []).append(call)
    leaves = by_scope(source.all(*LEAVES))
    single = {id(functions[0]): name for name, functions in made.items()
              if len(functions) == 1 and not functions[0].decorator_list}
    meant = {id(node): node for node in found}
    pairs, new = [(node, node) for node in found], found
    for _ in range(4):  # calls are followed to a depth of four functions
        more = []
        for scope, nodes in by_scope(new).items():
            name = single.get(scope)
            first = unconditional(leaves.get(scope, ()), nodes) if name is not None else None
            if first is not None:
                del single[scope]
                more += called.get(name, [])
                meant.update((id(call), meant[id(first)]) for call in called.get(name, []))
        pairs += [(call, meant[id(call)]) for call in more]
        new = more
    return pairs


def branches(node):
    """A dictionary from each if, try and similar node around this node, within its scope, to the branch that contains this node."""
    parts = {}
    for child, parent in climb(node):
        if isinstance(parent, (ast.If, ast.Try, ast.IfExp)):
            for part in ("body", "orelse", "handlers", "finalbody"):
                held = getattr(parent, part, None)
                if held is child or isinstance(held, list) and any(one is child for one in held):
                    parts[parent] = part
        elif isinstance(parent, (ast.Match, ast.ExceptHandler)):
            parts[parent] = id(child)
    return parts


def comes_before(first, then):
    """Whether both nodes are in the same scope, and `first` may be executed before `then`."""
    if (first.lineno, first.col_offset) >= (then.lineno, then.col_offset) or scope_of(first) is not scope_of(then):
        return False
    one, other = branches(first), branches(then)
    if any(parent in other and other[parent] != part for parent, part in one.items()):
        return False
    for parent, part in one.items():
        held = getattr(parent, part, None) if isinstance(part, str) else None
        if parent not in other and isinstance(held, list) and isinstance(held[-1], LEAVES):
            return False
    return True


def surely_runs(first, then):
    """Whether `first` is always executed before `then`: no condition or loop contains `first` without also containing `then`."""
    around = {id(parent) for _, parent in climb(then)}
    for child, parent in climb(first):
        if id(parent) in around:
            continue
        if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.Match, ast.comprehension) + LOOPS):
            if child is not getattr(parent, "test", None) and child is not getattr(parent, "iter", None):
                return False
    return True


def first_ones(nodes):
    """A dictionary from the id of a scope to the first of the nodes in each of its branches. Later nodes in the same branch add nothing."""
    firsts = {}
    for scope, inside in by_scope(nodes).items():
        seen = {}
        for node in sorted(inside, key=lambda one: (one.lineno, one.col_offset)):
            around = tuple(id(parent) for _, parent in climb(node) if isinstance(parent, CONDITIONS))
            seen.setdefault((around, tuple(branches(node).values())), node)
        firsts[scope] = list(seen.values())[:MOST_BRANCHES]
    return firsts


def visible_devices(source):
    """Finds CUDA_VISIBLE_DEVICES being set after CUDA has already read it."""
    late = {node: value for node, name, value in source.settings if name == "CUDA_VISIBLE_DEVICES"}
    if not late:
        return
    starts = [call for call, name in source.calls if starts_cuda(source, call, name)]
    starts += [node for node in source.all(ast.Import) if any(name.name == "pycuda.autoinit" for name in node.names)]
    starts = first_ones([node for node, _ in with_calls(source, starts)])
    asks = first_ones([node for node, _ in with_calls(source, [call for call, name in source.calls if name in ASKS])])
    children = by_scope([call for call, name in source.calls if STARTS_CHILD.match(name)])
    told = set()
    for node, setting in with_calls(source, list(late)):
        if setting in told or is_for_children(children, node) or is_for_children(children, setting):
            continue
        value = "…" if late[setting] is None else late[setting]
        scope = id(scope_of(node))
        before = [one for one in starts.get(scope, ()) if comes_before(one, node)]
        sure = next((one for one in before if surely_runs(one, node)), None)
        ask = sure or next((one for one in before + asks.get(scope, []) if comes_before(one, node)), None)
        if ask is None:
            continue
        told.add(setting)
        source.mark(setting, "visible_too_late" if sure is not None else "visible_maybe_late", value, ask.lineno)


def is_for_children(children, node):
    """Whether the scope starts a process after the node. The process inherits the variable, so setting it has an effect."""
    loop = loop_of(node)
    started = children.get(id(scope_of(node)), ())
    return bool(started) and (started[-1].lineno > node.lineno or loop is not None and any(loop_of(call) is loop for call in started))


def library_path(source):
    """Finds LD_LIBRARY_PATH being set at run time. The loader reads it only when a process starts."""
    for node, name, _ in source.settings:
        if name in ("LD_LIBRARY_PATH", "LD_PRELOAD") and not any(
                STARTS_CHILD.match(called) for _, called in source.calls) and "Popen" not in source.text:
            source.mark(node, "library_path_too_late", name)


def forks(source):
    if "spawn" in source.text or "forkserver" in source.text or sys.version_info >= (3, 14):
        return
    starts = [call for call, name in source.calls if starts_cuda(source, call, name)]
    # These calls initialize CUDA only if there is a GPU. They count only if the child process's code mentions CUDA.
    likely = [call for call, _ in source.calls if method(call) == "to" and call.args and may_name_cuda(source, call.args[0])]
    functions = {one.name: one for one in source.all(ast.FunctionDef)}

    def uses_cuda(node):
        function = functions.get(node.id) if isinstance(node, ast.Name) else None
        return function is not None and "cuda" in "\n".join(source.lines[function.lineno - 1:function.end_lineno])

    given = [call for call, _ in source.calls if method(call) in POOLED and call.args and uses_cuda(call.args[0])]
    for call, name in source.calls:
        if name not in ("multiprocessing.Process", "multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor"):
            continue

        def started_by(nodes):
            return next((one for one in nodes if comes_before(one, call) and surely_runs(one, call)), None)

        start, target = started_by(starts), keyword(call, "target")
        if isinstance(target, ast.Name) and target.id in functions:
            start = start or started_by(likely)
            if start is not None and uses_cuda(target):
                source.mark(call, "fork_after_cuda", "", start.lineno)
        elif name != "multiprocessing.Process":
            start = start or (started_by(likely) if given else None)
            if start is not None:
                source.mark(call, "pool_after_cuda", "", start.lineno)


def within(node, parent):
    while node is not None and node is not parent:
        node = node.parent
    return node is parent


def handlers(source):
    calls = {}  # id of a try statement → the functions that its body calls
    for call, name in source.calls:
        if isinstance(call.func, ast.Name) and call.func.id in BUILTINS or method(call) in ("append", "info", "warning"):
            continue
        for child, parent in climb(call):
            if isinstance(parent, ast.Try) and any(one is child for one in parent.body):
                calls.setdefault(id(parent), set()).add(ast.dump(call.func))
    for handler in source.all(ast.ExceptHandler):
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        kinds = [source.dotted(kind) for kind in kinds if kind is not None]
        runtime = any(kind in ("RuntimeError", "Exception") for kind in kinds)
        memory = any(kind.startswith("torch.") and kind.endswith("OutOfMemoryError") for kind in kinds)
        if runtime or memory:
            look_at_handler(source, handler, calls.get(id(handler.parent), set()), memory)


def moved_to_the_processor(handler):
    """Names of tensors that the handler moves to the CPU. Repeating the call then needs no GPU memory."""
    moved = set()
    for node in ast.walk(handler):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and (
                method(node.value) == "cpu" or method(node.value) == "to" and
                any(constant(given) == "cpu" for given in node.value.args)):
            moved.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return moved


def passes_any_cuda(test, error):
    """The text that the condition searches for, such as "CUDA", if it accepts every error of CUDA; otherwise None.

    `"CUDA" in str(e) and tries < 3` accepts every error. With `and "out of memory" in str(e)`, it would accept only one error."""
    if isinstance(test, ast.BoolOp):
        found = [passes_any_cuda(one, error) for one in test.values]
        narrow = isinstance(test.op, ast.And) and any(
            text is None and any(isinstance(node, ast.Name) and node.id == error for node in ast.walk(one))
            for one, text in zip(test.values, found))
        return None if narrow else next((text for text in found if text is not None), None)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.In):
        return None
    text = constant(test.left)
    return text if text is not None and text.lower().strip() in ("cuda", "cuda error") else None


def gpu_names(source):
    """Names of tensors and modules that the file creates on a GPU or moves to one."""
    if hasattr(source, "gpu_names"):
        return source.gpu_names
    names = source.gpu_names = set()
    for call, name in source.calls:
        device = call.args[0] if method(call) == "to" and call.args else keyword(call, "device")
        likely = device is not None and (names_cuda(source, device) or may_name_cuda(source, device))
        if not (likely and (method(call) == "to" or name.startswith("torch.")) or method(call) == "cuda" and not name.startswith("torch.")):
            continue
        if method(call) in ("to", "cuda") and isinstance(call.func.value, ast.Name):
            names.add(call.func.value.id)
        for _, parent in climb(call):
            if isinstance(parent, ast.Assign):
                names.update(one.id for target in parent.targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return names


def calls_itself(source, call, scope):
    """Whether the call is in a function that it starts again."""
    name = source.dotted(call.func)
    return isinstance(scope, ast.FunctionDef) and (
        name == scope.name or name == "self." + scope.name and isinstance(scope.parent, ast.ClassDef))


def work_in_handler(source, handler, inside):
    """The first call in the handler that calls its function again, or that certainly needs GPU memory. None if the handler moves tensors
    to the CPU."""
    if any(isinstance(node, ast.Call) and (method(node) == "cpu" or any(constant(given) == "cpu" for given in node.args))
           for node in inside):
        return None
    scope, moved = scope_of(handler), gpu_names(source)
    for node in inside:
        if not isinstance(node, ast.Call) or scope_of(node) is not scope:
            continue
        name = source.dotted(node.func)
        if calls_itself(source, node, scope) or method(node) == "backward" or isinstance(node.func, ast.Name) and node.func.id in moved or \
                not name.startswith("torch.cuda.") and starts_cuda(source, node, name):
            return node
    return None


def look_at_handler(source, handler, tried, memory):
    inside = list(ast.walk(handler))
    for node in inside:
        text = node.value.lower() if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        memory = memory or "out of memory" in text or \
            isinstance(node, ast.Call) and source.dotted(node.func) == "torch.cuda.empty_cache"
    if memory:
        moved = moved_to_the_processor(handler)
        again = next((node for node in inside if isinstance(node, ast.Call) and ast.dump(node.func) in tried and
                      not any(isinstance(given, ast.Name) and given.id in moved for given in node.args)), None)
        if again is not None:
            source.mark(again, "retry_inside_except", "", handler.lineno)
        else:
            work = work_in_handler(source, handler, inside)
            if work is not None:
                source.mark(work, "work_inside_except", "", handler.lineno)
    for node in inside:
        text = passes_any_cuda(node.test, handler.name) if isinstance(node, ast.If) else None
        goes_on = text is not None and (isinstance(node.body[-1], ast.Continue) or not isinstance(node.body[-1], LEAVES))
        again = text is not None and any(isinstance(one, ast.Call) and calls_itself(source, one, scope_of(handler))
                                         for statement in node.body for one in ast.walk(statement))
        if again or goes_on and loop_of(handler) is not None:
            source.mark(node, "retry_on_any_cuda", text)


def distributed(source):
    wraps = [call for call, name in source.calls if name == "torch.nn.parallel.DistributedDataParallel"]
    if not wraps:
        return
    text = source.text
    somewhere = any(method(call) == "cuda" and not call.args and not call.keywords or
                    method(call) == "to" and call.args and constant(call.args[0]) == "cuda" for call, _ in source.calls)
    chosen = re.search(r"set_device|local_rank|LOCAL_RANK|CUDA_VISIBLE_DEVICES|cuda\.device\(|[\"']cuda:", text)
    for call in wraps:
        if somewhere and not chosen and keyword(call, "device_ids") is None and not has_stars(call):
            source.mark(call, "ddp_without_device")
    if re.search(r"[sS]ampler|IterableDataset|split_dataset|[sS]hard", text):
        return
    for call, name in source.calls:
        if name != "torch.utils.data.DataLoader" or has_stars(call):
            continue
        holder = getattr(call.parent, "targets", [None])[0]
        if holder is None or not re.search(r"val|test|eval", ast.unparse(holder), re.I):
            source.mark(call, "loader_without_sampler", "", wraps[0].lineno)


WAITS = ("synchronize", "item", "cpu", "tolist", "numpy")  # methods that wait until the GPU has finished its work


def timings(source):
    uses = any(starts_cuda(source, call, name) for call, name in source.calls)
    functions = {one.name: one for one in source.all(ast.FunctionDef)}
    for call, name in source.calls:
        if name not in ("timeit.timeit", "timeit.repeat", "timeit.Timer") or not call.args:
            continue
        given = call.args[0]
        if isinstance(given, ast.Name) and given.id in functions:
            inside = list(ast.walk(functions[given.id]))
            on_gpu = any(isinstance(one, ast.Name) and one.id in gpu_names(source) or
                         isinstance(one, ast.Call) and starts_cuda(source, one, source.dotted(one.func)) for one in inside)
            if on_gpu and not any(isinstance(one, ast.Attribute) and one.attr in WAITS for one in inside):
                source.mark(call, "timed_launch")
        elif "synchronize" not in source.text:
            text = constant(given) or ""
            if uses and (isinstance(given, ast.Lambda) or text and keyword(call, "globals") is not None) or "cuda" in text:
                source.mark(call, "timed_launch")


def counts_cores(source, node, depth=0):
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id in source.values and depth < 4 and counts_cores(source, source.values[one.id], depth + 1):
            return True
        if isinstance(one, ast.Call):
            name = source.dotted(one.func)
            if name in ("os.cpu_count", "multiprocessing.cpu_count"):
                return True
            if name == "min":
                return False
    return False


def workers(source):
    for call, name in source.calls:
        given = keyword(call, "num_workers")
        if given is not None and counts_cores(source, given):
            source.mark(given, "workers_from_cores")
    for node in source.all(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "num_workers" and counts_cores(source, node.value):
            source.mark(node, "workers_from_cores")


BATCHES = re.compile(r"(per_device_)?(train_|eval_|test_)?batch(_?size)?", re.I)


def batches(source):
    """Finds batch sizes that depend on the number of cores. GPU memory limits a batch, cores do not."""
    if not re.search(r"\b(torch|tensorflow|keras|jax|transformers)\b", source.text):
        return
    given = [(word.value, word.value) for call, _ in source.calls for word in call.keywords if BATCHES.fullmatch(word.arg or "")]
    for node in source.all(ast.Assign):
        target = node.targets[0]
        name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
        if BATCHES.fullmatch(name):
            given.append((node, node.value))
    for node, value in given:
        if not (isinstance(value, ast.Name) and BATCHES.fullmatch(value.id)) and counts_cores(source, value):
            source.mark(node, "batch_from_cores")


def asks_for_gpu(node):
    return bool(re.search(r"is_available|device_count|cuda|gpu", ast.unparse(node), re.I))


def leaves(node):
    last = node.body[-1]
    return isinstance(last, LEAVES) or isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and \
        re.fullmatch(r"(sys\.|os\.)?_?(exit|quit)", ast.unparse(last.value.func)) is not None


def is_guarded(call, checks):
    """Whether a condition, a try or an earlier check prevents the call on a machine without a GPU."""
    for child, parent in climb(call):
        if isinstance(parent, ast.Try) and any(child is one for one in parent.body):
            return True
        tested = parent if isinstance(parent, ast.BoolOp) else getattr(parent, "test", None)
        if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp, ast.While)) and child is not tested and asks_for_gpu(tested):
            return True
    return any(node.lineno < call.lineno for node in checks.get(id(scope_of(call)), ()))


def current_device(source):
    """Finds calls of torch.cuda.current_device(), which raises an error if there is no GPU. Programs that need a GPU anyway may call it."""
    found = [call for call, name in source.calls if name == "torch.cuda.current_device"]
    if not found or re.search(r"nccl|local_rank|set_device|distributed", source.text, re.I) or any(
            method(call) == "cuda" for call, _ in source.calls):
        return
    checks = by_scope([node for node in source.all(ast.If, ast.Assert)
                       if asks_for_gpu(node.test) and (isinstance(node, ast.Assert) or leaves(node))])
    unguarded = {name for call, name in source.calls if name and not is_guarded(call, checks)}
    for call in found:
        scope = scope_of(call)
        runs = isinstance(scope, ast.Module) or isinstance(scope, ast.FunctionDef) and scope.name in unguarded
        if runs and not is_guarded(call, checks):
            source.mark(call, "current_device_unguarded")
            return


def prunes(source):
    made = [call for call, name in source.calls if re.match(r"torch\.nn\.utils\.prune\.\w+structured$", name)]
    if not any(name == "torch.nn.utils.prune.remove" for _, name in source.calls):
        for call in made:
            source.mark(call, "pruned_and_kept")


def settings_and_commands(source):
    """Returns variables and commands, for the rules that also apply to shell scripts."""
    # If CUBLAS_WORKSPACE_CONFIG is set as well, CUDA_LAUNCH_BLOCKING is intended: both make results reproducible.
    deterministic = any(name == "CUBLAS_WORKSPACE_CONFIG" for _, name, _ in source.settings)
    for node, name, value in source.settings:
        if name == "CUDA_LAUNCH_BLOCKING" and deterministic:
            continue
        if name is not None and value is not None:
            source.mark(node, "setting", name + "=" + value)
    for call, name in source.calls:
        if name not in ("os.system", "os.popen") and not name.startswith("subprocess.") or not call.args:
            continue
        words = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else [call.args[0]]
        words = [constant(word) for word in words]
        if all(word is not None for word in words):
            source.mark(call, "command", " ".join(words))
