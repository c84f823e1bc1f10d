"""Graphs as TensorFlow 1 wrote them, made by TensorFlow 2's compat.v1."""
import contextlib

# Attributes that TensorFlow 1 did not have.
NEWER = {"MatMul": ("grad_a", "grad_b"), "BatchMatMul": ("grad_x", "grad_y"),
         "BatchMatMulV2": ("grad_x", "grad_y"), "VarHandleOp": ("debug_name", "allowed_devices")}


def tiled(x, shape, name=None):
    """What gradients had where version 2 has a BroadcastTo; x has the rank of the shape."""
    from tensorflow.python.ops import array_ops, math_ops
    times = math_ops.floordiv(shape, math_ops.maximum(array_ops.shape(x), 1))
    return array_ops.tile(x, times, name=name)


@contextlib.contextmanager
def using(dialect):
    """Gradients are built as in the dialect."""
    from tensorflow.python.ops import array_ops
    broadcast_to = array_ops.broadcast_to
    if dialect == "tf1":
        array_ops.broadcast_to = tiled
    yield
    array_ops.broadcast_to = broadcast_to


def strip(dialect, meta):
    if dialect != "tf1":
        return
    functions = [n for f in meta.graph_def.library.function for n in f.node_def]
    for node in [*meta.graph_def.node, *functions]:
        for name in NEWER.get(node.op, ()):
            node.attr.pop(name, None)
