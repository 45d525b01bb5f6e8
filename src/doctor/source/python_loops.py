"""Finds slow lines in the steps of a training loop: calls that wait for the GPU, and values that keep the graph of a loss."""


def over_epochs(losses):
    """The loops over epochs. They run rarely, so slow lines in them do not matter. Their variable is called "epoch", or an inner loop has the steps."""
    few = {id(loop) for loop in losses if isinstance(loop, (ast.For, ast.AsyncFor)) and "epoch" in ast.unparse(loop.target).lower()}
    for loop in losses:
        outer = loop.parent
        while outer is not None:
            if outer in losses:
                few.add(id(outer))
            outer = outer.parent
    return few


def written(node):
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def root(node):
    """The name at the start of an expression: "self" for self.total["loss"]; "" if it is not a name."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def plain_loss(node):
    """The loss whose graph the value keeps: "loss" for loss * n, loss.mean(), scaler.scale(loss). "" if there is none."""
    for _ in range(8):
        if isinstance(node, (ast.Name, ast.Attribute)):
            return written(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            node = node.right if isinstance(node.left, (ast.Constant, ast.Call)) and isinstance(node.op, ast.Mult) else node.left
        elif isinstance(node, ast.Call) and method(node) == "scale" and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node, ast.Call) and method(node) in ("mean", "sum") and not node.args:
            node = node.func.value
        else:
            break
    return ""


def backward_of(call, assigned):
    """The loss of a backward call: loss.backward(), or the argument of accelerator.backward(loss)."""
    if method(call) not in ("backward", "manual_backward"):
        return None
    receiver = call.func.value
    # In loss.backward(x), the loop assigns to "loss", so it is the loss. In engine.backward(loss), the loop does not
    # assign to "engine".
    if not call.args or plain_loss(receiver) and root(receiver) in assigned:
        return receiver
    return call.args[0]


def each_step(source):
    """Finds marks that apply to every step of a training loop. A training loop is a loop that calls backward()."""
    backwards = [call for call, _ in source.calls if method(call) in ("backward", "manual_backward")]
    if not backwards and "training_step" not in source.text:
        return
    assigned = {}  # loop → names that are assigned in it
    for name in source.all(ast.Name):
        if not isinstance(name.ctx, ast.Load):
            for _, parent in climb(name):
                if isinstance(parent, LOOPS):
                    assigned.setdefault(parent, set()).add(name.id)
    losses = {}  # loop → names of the losses on which it calls backward()
    # all names in the losses; a sum among them keeps its graphs on purpose, because backward() is called on it
    summed = set()
    for call in backwards:
        loop = loop_of(call)
        loss = backward_of(call, assigned.get(loop, ()))
        summed.update(written(one) for one in ast.walk(loss) if isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)))
        name = plain_loss(loss)
        for _, parent in climb(call):
            if isinstance(parent, LOOPS) and name:
                losses.setdefault(parent, set()).add(name)
    summed_losses(source, losses, summed, assigned)
    told, few = set(), over_epochs(losses)
    for call, name in source.calls:
        loop = loop_of(call)
        if loop is None or loop not in losses or loop in told or id(loop) in few or is_conditional(call, loop):
            continue
        shown = [part.value for given in call.args if isinstance(given, ast.JoinedStr)
                 for part in given.values if isinstance(part, ast.FormattedValue)] + call.args
        prints = name == "print" and any(isinstance(one, ast.Name) and one.id in losses[loop] for one in shown)
        if prints or method(call) in ("item", "cpu") and not call.args:
            told.add(loop)
            source.mark(call, "waits_every_step", "print()" if prints else "." + method(call) + "()", loop.lineno)


def kept_values(source):
    """Yields (node, name, value) for each line that adds a value to a sum or a list, which may then grow with every step."""
    for node in source.all(ast.AugAssign):
        if isinstance(node.op, ast.Add) and isinstance(node.target, (ast.Name, ast.Attribute, ast.Subscript)):
            for value in node.value.elts if isinstance(node.value, ast.List) else [node.value]:
                yield node, node.target, value
    # assignments that add to a variable: "running = running + loss", "seen = seen + [loss]"
    for node in source.all(ast.Assign):
        target, value = node.targets[0], node.value
        if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            for one, other in ((value.left, value.right), (value.right, value.left)):
                if isinstance(one, type(target)) and written(one) == written(target):
                    for part in other.elts if isinstance(other, ast.List) else [other]:
                        yield node, target, part
    for call, _ in source.calls:
        if method(call) == "append" and len(call.args) == 1:
            yield call, call.func.value, call.args[0]


def is_number(value):
    """Whether the assigned value is a number or another value without a graph, as in loss = loss.item()."""
    return any(isinstance(one, ast.Call) and (method(one) in ("item", "detach", "numpy", "tolist") or
                                              isinstance(one.func, ast.Name) and one.func.id == "float") or
               isinstance(one, ast.Attribute) and one.attr == "data" for one in ast.walk(value))


def summed_losses(source, losses, summed, assigned):
    loops = {id(loop): names for loop, names in losses.items()}
    steps = lightning_steps(source)
    if not loops and not steps:
        return
    kept = [(node, keeper, plain_loss(value)) for node, keeper, value in kept_values(source)]
    sums = {id(node) for node, _, _ in kept}
    # resets: (name, id of an enclosing node) for each name that is set or cleared; numbers: the same, for names set to
    # a value without a graph
    resets, numbers = set(), set()
    for node in source.all(ast.Assign):
        for target in node.targets if id(node) not in sums else ():
            if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
                places = [(written(target), id(parent)) for _, parent in climb(node)]
                resets.update(places)
                numbers.update(places if is_number(node.value) else ())
    for call, _ in source.calls:
        if method(call) == "clear":
            resets.update((written(call.func.value), id(parent)) for _, parent in climb(call))
    for node, keeper, name in kept:
        around = loop_of(node)
        if around is None and isinstance(node, ast.AugAssign) and root(keeper) == "self":
            around = scope_of(node)
        if not name or name not in loops.get(id(around), steps.get(id(around), ())) or is_without_graph(source, node):
            continue
        text = written(keeper)
        if text in summed or root(keeper) in assigned.get(around, ()) and root(keeper) != text:
            continue
        if (text, id(around)) not in resets and (name, id(around)) not in numbers:
            source.mark(node, "loss_keeps_graph", name)


def lightning_steps(source):
    """A dictionary from the id of a Lightning module's training_step to the names that it returns as loss."""
    steps = {}
    for function in source.all(ast.FunctionDef):
        if function.name != "training_step" or not isinstance(function.parent, ast.ClassDef):
            continue
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Return) else None
            if isinstance(value, ast.Dict):
                value = next((one for key, one in zip(value.keys, value.values) if constant(key) == "loss"), None)
            if isinstance(value, ast.Name):
                steps.setdefault(id(function), set()).add(value.id)
    return steps
