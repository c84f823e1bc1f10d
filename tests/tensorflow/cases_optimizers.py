"""The update ops of the optimisers, dense and by rows, with references and handles, ten steps
each: agent/ops/training.c, agent/kernels/updates.c."""
import numpy as np

from cases import case, normal, steps, tf, uniform

DIALECT = "tf1"
SCALARS = dict(lr=0.1, alpha=0.1, rho=0.9, momentum=0.8, epsilon=1e-3, beta1=0.9, beta2=0.99,
               beta1_power=0.9, beta2_power=0.99, l1=0.05, l2=0.1, l2_shrinkage=0.02,
               lr_power=-0.5, logbase=1.0, sign_decay=0.7, beta=0.9)
# op: (slots, scalars, whether there is a sparse form)
OPS = {
    "GradientDescent": ((), ("alpha",), False),
    "ProximalGradientDescent": ((), ("alpha", "l1", "l2"), True),
    "Momentum": (("accum",), ("lr", "momentum"), True),
    "KerasMomentum": (("accum",), ("lr", "momentum"), True),
    "RMSProp": (("ms", "mom"), ("lr", "rho", "momentum", "epsilon"), True),
    "CenteredRMSProp": (("mg", "ms", "mom"), ("lr", "rho", "momentum", "epsilon"), True),
    "Adagrad": (("accum",), ("lr",), True),
    "AdagradV2": (("accum",), ("lr", "epsilon"), True),
    "ProximalAdagrad": (("accum",), ("lr", "l1", "l2"), True),
    "AdagradDA": (("gradient_accumulator", "gradient_squared_accumulator"),
                  ("lr", "l1", "l2", "global_step"), True),
    "Adadelta": (("accum", "accum_update"), ("lr", "rho", "epsilon"), True),
    "Ftrl": (("accum", "linear"), ("lr", "l1", "l2", "lr_power"), True),
    "FtrlV2": (("accum", "linear"), ("lr", "l1", "l2", "l2_shrinkage", "lr_power"), True),
    "Adam": (("m", "v"), ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"), False),
    "AdamWithAmsgrad": (("m", "v", "vhat"),
                        ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"), False),
    "AdaMax": (("m", "v"), ("beta1_power", "lr", "beta1", "beta2", "epsilon"), False),
    "AddSign": (("m",), ("lr", "alpha", "sign_decay", "beta"), False),
    "PowerSign": (("m",), ("lr", "logbase", "sign_decay", "beta"), False),
}
# slots that are sums or means of squares
POSITIVE = ("ms", "accum", "accum_update", "v", "vhat", "gradient_squared_accumulator")
BY_HANDLE_ONLY = ("KerasMomentum", "AdamWithAmsgrad")
VARIANTS = {
    "plain": {}, "nesterov": {"use_nesterov": True}, "slots_kept": {"update_slots": False},
    "by_lr": {"multiply_linear_by_lr": True}, "no_l1": {"l1": 0.0}, "power": {"lr_power": -0.7},
}
WITH = {
    "nesterov": ("Momentum", "KerasMomentum", "Adam"),
    "slots_kept": ("Adagrad", "AdagradV2"),
    "by_lr": ("Ftrl", "FtrlV2"),
    "no_l1": ("ProximalGradientDescent", "ProximalAdagrad", "AdagradDA", "Ftrl"),
    "power": ("Ftrl", "FtrlV2"),
}


def slot(op, name, shape, dtype):
    if name == "accum" and op in ("Momentum", "KerasMomentum") or name not in POSITIVE:
        return normal(*shape, dtype=dtype) / 4
    if name == "ms":  # more than the square of a mean of gradients
        return uniform(1, 2, *shape, dtype=dtype)
    return uniform(0.1, 1, *shape, dtype=dtype)


def build(op, is_sparse, is_handle, dtype, shape, options):
    slots, scalars, _ = OPS[op]
    names = ["var", *slots]
    values = [normal(*shape, dtype=dtype)] + [slot(op, s, shape, dtype) for s in slots]
    variables = [tf.get_variable(n, initializer=x, use_resource=is_handle)
                 for n, x in zip(names, values)]
    args = {n: v.handle if is_handle else v for n, v in zip(names, variables)}
    for s in scalars:
        args[s] = tf.constant(5, "int64") if s == "global_step" else \
            tf.constant(options.get(s, SCALARS[s]), dtype)
    x = tf.identity(variables[0]) if not is_handle else variables[0].read_value()
    if is_sparse:
        rows = np.array([2, 0, 2], "int32" if dtype == "float32" else "int64")
        args["grad"] = tf.gather(x, rows) + normal(3, *shape[1:], dtype=dtype)
        args["indices"] = rows
    else:
        delta = op in ("GradientDescent", "ProximalGradientDescent")
        args["delta" if delta else "grad"] = x / 2 + normal(*shape, dtype=dtype)
    kind = ("Resource" if is_handle else "") + ("Sparse" if is_sparse else "") + "Apply" + op
    attrs = {k: v for k, v in options.items() if isinstance(v, bool)}
    done = getattr(tf.raw_ops, kind)(**args, **attrs, name="update")
    steps(done, 10)
    return variables[0].read_value() if is_handle else tf.identity(variables[0])


def add(op, variant, is_sparse, is_handle, dtype, shape):
    words = [op, "sparse" if is_sparse else "dense", "handle" if is_handle else "ref", dtype,
             f"{len(shape)}d", variant]

    # ten steps, and reciprocal square roots that TensorFlow estimates
    @case(name="_".join(words).lower(), gradients=False,
          tolerance=2e-6 if dtype == "float32" else None)
    def one():
        return build(op, is_sparse, is_handle, dtype, shape, VARIANTS[variant])


for op, (_, _, has_sparse) in OPS.items():
    for variant in VARIANTS:
        if variant != "plain" and op not in WITH[variant]:
            continue
        for is_sparse in (False, True)[:1 + has_sparse]:
            add(op, variant, is_sparse, True, "float32", (4, 3))
            if variant == "plain":
                add(op, variant, is_sparse, True, "float64", (4, 3))
                add(op, variant, is_sparse, True, "float32", (5,))
            if op not in BY_HANDLE_ONLY:
                add(op, variant, is_sparse, False, "float32", (4, 3))
