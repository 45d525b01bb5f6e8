"""Marks in a Python file, by its syntax tree: [[line, what, value, other line], …] as JSON on stdout.

Embedded in berth, run as `python3 -I -S -c` with the file on stdin; nothing of it is executed or imported. What a mark
means is written in rules.cpp. Everything here walks by loops, because a file may be nested deeper than we may recurse.
"""
import ast
import json
import re
import sys

KNOWN = {"torch": "torch", "os": "os", "tf": "tensorflow", "subprocess": "subprocess"}
ALIASES = {"torch.nn.parallel.DataParallel": "torch.nn.DataParallel", "torch.multiprocessing": "multiprocessing"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Source:
    """The tree with parents, nodes by their type in the order of the file, and what each local name stands for."""

    def __init__(self, text):
        self.text = text
        self.lines = text.split("\n")
        self.marks = []
        self.nodes = {}
        tree = ast.parse(text)
        tree.parent = None
        stack = [tree]
        while stack:
            node = stack.pop()
            self.nodes.setdefault(type(node), []).append(node)
            for child in reversed(list(ast.iter_child_nodes(node))):
                child.parent = node
                stack.append(child)
        self.names = dict(KNOWN)
        for node in self.all(ast.Import):
            for name in node.names:
                self.names[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
        for node in self.all(ast.ImportFrom):
            for name in node.names:
                self.names[name.asname or name.name] = "." * node.level + (node.module or "") + "." + name.name
        self.calls = [(call, self.dotted(call.func)) for call in self.all(ast.Call)]
        self.settings = list(self.environment_settings())

    def all(self, *types):
        return [node for one in types for node in self.nodes.get(one, [])]

    def mark(self, node, what, value="", other=0):
        line = node if isinstance(node, int) else node.lineno
        self.marks.append([line, what, str(value)[:300], other])

    def dotted(self, node):
        """"torch.cuda.set_device" for what the expression names, through the imports; "" for anything else."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.names.get(node.id, node.id))
        name = ".".join(reversed(parts))
        for other, usual in ALIASES.items():
            if name == other or name.startswith(other + "."):
                name = usual + name[len(other):]
        return name

    def comment(self, line):
        """What the comment on this line, and the one above it, say."""
        said = self.lines[line - 1].partition("#")[2]
        above = self.lines[line - 2].strip() if line > 1 else ""
        return said + " " + (above if above.startswith("#") else "")

    def environment_settings(self):
        """(node, name, value or None) of every variable that this process sets for itself."""
        for node in self.all(ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ":
                    yield node, constant(target.slice), constant(node.value)
        for call, name in self.calls:
            if name in ("os.environ.setdefault", "os.putenv") and len(call.args) == 2:
                yield call, constant(call.args[0]), constant(call.args[1])
            if name == "os.environ.update":
                for given in call.args:
                    if isinstance(given, ast.Dict):
                        for key, value in zip(given.keys, given.values):
                            yield key or call, constant(key), constant(value)
                for word in call.keywords:
                    yield call, word.arg, constant(word.value)


def constant(node):
    """The text of a constant; None for what is only known when it runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int)) and not isinstance(node.value, bool):
        return str(node.value)
    return None


def keyword(call, name):
    return next((word.value for word in call.keywords if word.arg == name), None)


def has_stars(call):
    return any(word.arg is None for word in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)


def climb(node):
    """(child, parent) up to the scope that the node runs in."""
    while node.parent is not None and not isinstance(node.parent, SCOPES):
        yield node, node.parent
        node = node.parent
    if node.parent is not None:
        yield node, node.parent


def scope_of(node):
    last = node
    for _, last in climb(node):
        pass
    return last


def loop_of(node):
    return next((parent for child, parent in climb(node) if isinstance(parent, LOOPS) and
                 child is not getattr(parent, "iter", None)), None)


def is_conditional(node, within):
    for _, parent in climb(node):
        if parent is within:
            return False
        if isinstance(parent, (ast.If, ast.IfExp, ast.ExceptHandler, ast.Match)):
            return True
    return False


WITHOUT_GRAPH = {"torch." + name for name in "no_grad inference_mode autograd.no_grad autograd.inference_mode".split()}


def is_without_graph(source, node):
    """torch.no_grad() or its like is around the node, or on the function that it stands in."""
    while node is not None:
        around = [item.context_expr for item in node.items] if isinstance(node, (ast.With, ast.AsyncWith)) else \
            getattr(node, "decorator_list", [])
        for one in around:
            called = one.func if isinstance(one, ast.Call) else one
            if source.dotted(called) in WITHOUT_GRAPH:
                return True
        node = node.parent
    return False


def is_false(node):
    return isinstance(node, ast.Constant) and node.value in (False, 0) and node.value is not None


def cpu_device(source, node):
    if isinstance(node, ast.Call) and source.dotted(node.func) == "torch.device" and node.args:
        node = node.args[0]
    return constant(node) == "cpu"


def plain_calls(source):
    """Calls whose name says it all."""
    for call, name in source.calls:
        if name == "torch.cuda.set_device" and call.args and cpu_device(source, call.args[0]):
            source.mark(call, "set_device_cpu")
        elif name == "torch.cuda.amp.autocast":
            given = [ast.unparse(one) for one in call.args + [word.value for word in call.keywords if word.arg is None]]
            given += [f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords if word.arg is not None]
            source.mark(call, "old_autocast", ", ".join(['"cuda"'] + given) if not has_stars(call) else '"cuda", …')
        elif name == "torch.cuda.amp.GradScaler":
            source.mark(call, "old_grad_scaler")
        elif name == "torch.nn.DataParallel":
            source.mark(call, "data_parallel")


def assignments(source):
    for node in source.all(ast.Assign):
        for target in node.targets:
            name = source.dotted(target)
            value = node.value
            if name == "torch.cuda.is_available" and isinstance(value, ast.Lambda) and is_false(value.body):
                source.mark(node, "is_available_replaced")
            elif name == "torch.backends.cudnn.enabled" and is_false(value):
                said = source.comment(node.lineno).lower()
                hides = re.search(r"(disabl|turn off|without|avoid|not use|no )[^.]*\b(gpu|cuda)\b|\b(use|force)[^.]*\bcpu\b", said)
                source.mark(node, "cudnn_off_for_cpu" if hides else "cudnn_off")
            elif name == "torch.backends.cudnn.benchmark" and isinstance(value, ast.Constant) and value.value is True:
                if re.search(r"memory|内存|显存", source.comment(node.lineno).lower()):
                    source.mark(node, "benchmark_for_memory")


def unread_settings(source):
    """Variables that PyTorch does not read, where the file does not do so either."""
    read = set()
    for node in source.all(ast.Subscript):
        if isinstance(node.ctx, ast.Load) and source.dotted(node.value) == "os.environ":
            read.add(constant(node.slice))
    for call, name in source.calls:
        if name in ("os.environ.get", "os.getenv", "os.environ.pop") and call.args:
            read.add(constant(call.args[0]))
    for node, name, _ in source.settings:
        if name in ("AMP_ENABLE", "DIST_URL") and name not in read:
            source.mark(node, "setting_nobody_reads", name)


def apex(source):
    for node in source.all(ast.ImportFrom):
        if node.level == 0 and (node.module == "apex.amp" or
                                node.module == "apex" and any(name.name == "amp" for name in node.names)):
            source.mark(node, "apex_amp")
    for node in source.all(ast.Import):
        if any(name.name == "apex.amp" for name in node.names):
            source.mark(node, "apex_amp")


def half_without_scaler(source):
    """autocast to fp16 and backward(), and nothing in the file that scales."""
    if "scale" in source.text.lower() or not any(method(call) == "backward" for call, _ in source.calls):
        return
    for call, name in source.calls:
        body = getattr(call.parent.parent, "body", None)  # of the with that the call stands in
        if is_without_graph(source, body[0] if isinstance(body, list) and len(body) == 1 else call):
            continue
        kind = keyword(call, "dtype")
        if name == "torch.autocast" and len(call.args) > 1:
            kind = call.args[1]
        if name == "torch.cuda.amp.autocast" and not call.args and kind is None and not has_stars(call) and \
                keyword(call, "enabled") is None:
            source.mark(call, "half_without_scaler")
        elif name in ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast") and kind is not None and \
                source.dotted(kind) in ("torch.float16", "torch.half"):
            source.mark(call, "half_without_scaler")


def method(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def empty_cache(source):
    steps = {id(loop_of(call)) for call, _ in source.calls if method(call) in ("backward", "step")}
    for call, name in source.calls:
        if name != "torch.cuda.empty_cache":
            continue
        loop = loop_of(call)
        if loop is not None and id(loop) in steps and not is_conditional(call, loop):
            source.mark(call, "empty_cache_every_step", "", loop.lineno)
        elif any(isinstance(parent, ast.ExceptHandler) for _, parent in climb(call)):
            source.mark(call, "empty_cache_as_cure")
