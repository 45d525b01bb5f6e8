"""Finds marks in a Python file with its syntax tree: [[line, what, value, other line], …] as JSON on stdout.

berth contains this script and runs it with `python3 -I -S -c`, with the file on stdin. The file is never executed or imported. rules.cpp
defines what a mark means. Uses loops instead of recursion, because a file may be nested more deeply than the recursion limit.
"""
import ast
import gc
import json
import re
import sys

KNOWN = {"torch": "torch", "os": "os", "tf": "tensorflow", "subprocess": "subprocess"}
ALIASES = {"torch.nn.parallel.DataParallel": "torch.nn.DataParallel", "torch.multiprocessing": "multiprocessing"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Source:
    """The syntax tree with parents, with the nodes by type in file order, and with the meaning of each local name."""

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
        # A class or function that this file defines is not the one in the library, even if it has
        # the same name.
        imported = {name.asname or name.name.split(".")[0] for node in self.all(ast.Import) for name in node.names}
        for node in self.all(ast.ClassDef, ast.FunctionDef):
            if self.names.get(node.name) == KNOWN.get(node.name, "") and node.name not in imported:
                self.names[node.name] = "." + node.name
        self.assigned = {}  # name → all values that are assigned to it
        for node in self.all(ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.assigned.setdefault(target.id, []).append(node.value)
        self.values = self.single_values()
        # After "env = os.environ", `env` is another name for the environment. After "env = os.environ.copy()", it is
        # not.
        for name, value in self.values.items():
            if isinstance(value, ast.Attribute) and self.dotted(value) == "os.environ":
                self.names[name] = "os.environ"
        self.calls = [(call, self.dotted(call.func)) for call in self.all(ast.Call)]
        self.settings = list(self.environment_settings())

    def single_values(self):
        """A dictionary of the names that are assigned only once in the file and are never a parameter, with their values."""
        values, twice = {}, {one.arg for one in self.all(ast.arg)}
        for node in self.all(ast.Assign, ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id not in values:
                    values[target.id] = node.value
                    target.is_first = True
        for name in self.all(ast.Name):
            if not isinstance(name.ctx, ast.Load) and not hasattr(name, "is_first"):
                twice.add(name.id)
        return {name: value for name, value in values.items() if name not in twice and value is not None}

    def begins(self, node, depth=0):
        """The start of a string, as far as it is known, and whether this is the complete string: f"cuda:{rank}" → ("cuda:", False)."""
        if isinstance(node, ast.Name) and node.id in self.values and depth < 4:
            return self.begins(self.values[node.id], depth + 1)
        if isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
                one, whole = self.begins(part.value if plain else part, depth + 1) if depth < 4 else ("", False)
                text += one
                if not whole:
                    return text, False
            return text, True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth < 4:
            one, whole = self.begins(node.left, depth + 1)
            if not whole:
                return one, False
            other, whole = self.begins(node.right, depth + 1)
            return one + other, whole
        if isinstance(node, ast.Call) and self.dotted(node.func) == "str" and len(node.args) == 1 and depth < 4:
            return self.begins(node.args[0], depth + 1)
        text = constant(node)
        return ("", False) if text is None else (text, True)

    def text_of(self, node):
        """The string value of the expression; None if it is only known at run time."""
        text, whole = self.begins(node)
        return text if whole else None

    def all(self, *types):
        return [node for one in types for node in self.nodes.get(one, [])]

    def mark(self, node, what, value="", other=0):
        line = node if isinstance(node, int) else node.lineno
        self.marks.append([line, what, str(value)[:300], other])

    def dotted(self, node):
        """The full name of the expression according to the imports: "torch.cuda.set_device". "" for anything that is not a name."""
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
        """The comment on this line and the one above it."""
        said = self.lines[line - 1].partition("#")[2]
        above = self.lines[line - 2].strip() if line > 1 else ""
        return said + " " + (above if above.startswith("#") else "")

    def comments_above(self, line):
        """All comment lines directly above this line, and the comment on it."""
        said, above = [self.lines[line - 1].partition("#")[2]], line - 2
        while above >= 0 and self.lines[above].strip().startswith("#"):
            said.insert(0, self.lines[above].strip().lstrip("#"))
            above -= 1
        return " ".join(said)

    def environment_settings(self):
        """Yields (node, name, value or None) for every environment variable that the process sets for itself."""
        for node in self.all(ast.Assign, ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ":
                    yield node, self.text_of(target.slice), self.text_of(node.value)
        for node in self.all(ast.AugAssign):
            if self.dotted(node.target) == "os.environ" and isinstance(node.op, ast.BitOr):
                yield from self.entries(node, node.value)
            elif isinstance(node.target, ast.Subscript) and self.dotted(node.target.value) == "os.environ":
                yield node, self.text_of(node.target.slice), None
        for call, name in self.calls:
            if name in ("os.environ.setdefault", "os.putenv", "os.environ.__setitem__") and len(call.args) == 2:
                yield call, self.text_of(call.args[0]), self.text_of(call.args[1])
            if name == "os.environ.update":
                for given in call.args:
                    yield from self.entries(call, given)
                for word in call.keywords:
                    yield call, word.arg, self.text_of(word.value)

    def entries(self, place, given):
        """Yields the entries of {"NAME": value} and dict(NAME=value). A dictionary that includes another one is skipped, because it may
        be a copy of the environment."""
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values):
                yield key or place, self.text_of(key), self.text_of(value)
        elif isinstance(given, ast.Call) and self.dotted(given.func) == "dict":
            for word in given.keywords:
                yield place, word.arg, self.text_of(word.value)


def constant(node):
    """The string of a constant; None if it is only known at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int)) and not isinstance(node.value, bool):
        return str(node.value)
    return None


def keyword(call, name):
    return next((word.value for word in call.keywords if word.arg == name), None)


def has_stars(call):
    return any(word.arg is None for word in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)


def climb(node):
    """Yields (child, parent) from the node up to the scope in which it runs."""
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
    """Whether PyTorch records no graph for the node: the node, or its function, is inside torch.no_grad() or similar."""
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


def device_of(source, node, depth=0):
    """The argument of torch.device(…), also if the node is a name to which torch.device(…) was assigned. Otherwise the node itself."""
    if isinstance(node, ast.Name) and node.id in source.values and depth < 4:
        return device_of(source, source.values[node.id], depth + 1)
    if isinstance(node, ast.Call) and source.dotted(node.func) == "torch.device":
        return node.args[0] if node.args else keyword(node, "type")
    return node


def cpu_device(source, node):
    return source.text_of(device_of(source, node)) == "cpu"


def arguments(call, names):
    """The arguments for a new call, as text: "cuda", then those of the old call. `names` turns positional arguments into named ones."""
    if has_stars(call) or names and len(call.args) > len(names):
        return '"cuda", …'
    given = [f"{names[i]}={ast.unparse(one)}" if names else ast.unparse(one) for i, one in enumerate(call.args)]
    return ", ".join(['"cuda"'] + given + [f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords])


def plain_calls(source):
    """Finds mistakes that one call shows, without the code around it."""
    for call, name in source.calls:
        given = call.args[0] if call.args else keyword(call, "device")
        if name == "torch.cuda.set_device" and given is not None and cpu_device(source, given):
            source.mark(call, "set_device_cpu")
        elif name == "torch.cuda.amp.autocast":
            # The new function takes the device type as its first argument, and the other arguments in another order.
            source.mark(call, "old_autocast", arguments(call, ("enabled", "dtype", "cache_enabled")))
        elif name == "torch.cuda.amp.GradScaler":
            source.mark(call, "old_grad_scaler", arguments(call, ()))
        elif name == "torch.nn.DataParallel":
            source.mark(call, "data_parallel")


def always_false(source, node):
    """Whether the node is `lambda: False`, or the name of a function that only returns False."""
    if isinstance(node, ast.Lambda):
        return is_false(node.body)
    if not isinstance(node, ast.Name):
        return False
    made = [one for one in source.all(ast.FunctionDef) if one.name == node.id]
    body = [one for one in made[0].body if not isinstance(one, ast.Expr)] if len(made) == 1 else []
    return len(body) == 1 and isinstance(body[0], ast.Return) and is_false(body[0].value)


def attributes_set(source):
    """Yields (node, full name, value) for "a.b = value" and setattr(a, "b", value)."""
    for node in source.all(ast.Assign):
        for target in node.targets:
            yield node, source.dotted(target), node.value
    for call, name in source.calls:
        if name == "setattr" and len(call.args) == 3 and constant(call.args[1]):
            yield call, source.dotted(call.args[0]) + "." + constant(call.args[1]), call.args[2]


def claims_less_memory(said):
    """Whether a comment says that the line saves GPU memory: "to save GPU memory", "节省显存". The comment "faster, but needs more memory" does not count."""
    costs = r"(more|extra|additional|higher)[^.]{0,20}(memory|vram)|(更多|额外|增加)[^。]{0,8}[内显]存|[内显]存[^。]{0,8}(更多|增加|变大)"
    return bool(re.search(r"memory|vram|\boom\b|内存|显存", said)) and not re.search(costs, said)


def assignments(source):
    for node, name, value in attributes_set(source):
        if name == "torch.cuda.is_available" and always_false(source, value):
            source.mark(node, "is_available_replaced")
        elif name == "torch.backends.cudnn.enabled" and is_false(value):
            said = source.comment(node.lineno).lower()
            hides = re.search(r"(disabl|turn off|without|avoid|not use|no )[^.]*\b(gpu|cuda)\b|\b(use|force)[^.]*\bcpu\b", said)
            source.mark(node, "cudnn_off_for_cpu" if hides else "cudnn_off")
        elif name == "torch.backends.cudnn.benchmark" and isinstance(value, ast.Constant) and value.value is True:
            if claims_less_memory(source.comments_above(node.lineno).lower()):
                source.mark(node, "benchmark_for_memory")


def unread_settings(source):
    """Finds variables that neither PyTorch nor the file itself reads."""
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
    """Finds autocast to fp16 together with backward(), in a file without gradient scaling."""
    if "scale" in source.text.lower() or not any(method(call) == "backward" for call, _ in source.calls):
        return
    for call, name in source.calls:
        # the body of the with statement that contains the call
        body = getattr(call.parent.parent, "body", None)
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
