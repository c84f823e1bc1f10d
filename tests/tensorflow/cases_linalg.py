"""Diagonals, linear equations, einsum: agent/ops/diagonals.c, solve.c, einsum.c."""
from cases import case, feed, integers, normal, tf

DIALECT = "tf1"


def regular(*shape, dtype="float32"):
    """Matrices with a large diagonal."""
    import numpy as np
    return (normal(*shape) * 0.5 + 2 * np.eye(shape[-1])).astype(dtype)


def positive(*shape, dtype="float32"):
    import numpy as np
    x = normal(*shape)
    return (x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])).astype(dtype)


for shape in [(3,), (2, 3), (2, 1, 2)]:
    @case(name=f"matrix_diag_{len(shape)}")
    def matrix_diag(shape=shape):
        return tf.raw_ops.MatrixDiag(diagonal=feed(normal(*shape)))

for align in ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]:
    @case(name=f"bands_{align.lower()}")
    def bands(align=align):
        x, d = feed(normal(2, 3, 4)), feed(normal(2, 3, 3))
        return [tf.linalg.diag_part(x, k=(-1, 1), align=align, padding_value=7),
                tf.linalg.diag_part(x, k=(-2, 2), align=align),
                tf.linalg.diag_part(x, k=2, align=align),
                tf.linalg.set_diag(x, d, k=(-1, 1), align=align),
                tf.linalg.diag(d, k=(-1, 1), align=align),
                tf.linalg.diag(d, k=(0, 2), align=align, padding_value=3),
                tf.linalg.diag(d[:, 0], k=-2, num_rows=5, num_cols=4, align=align)]


# TensorFlow differentiates these by the third version, which aligns otherwise: a wrong gradient
@case(gradients=False)
def bands_of_the_second_version():
    x, d = feed(normal(3, 3)), feed(normal(2, 3))
    return [tf.raw_ops.MatrixDiagPartV2(input=x, k=[-1, 1], padding_value=0.0),
            tf.raw_ops.MatrixSetDiagV2(input=x, diagonal=d, k=[0, 1]),
            tf.raw_ops.MatrixDiagV2(diagonal=d, k=[-1, 0], num_rows=-1, num_cols=-1,
                                    padding_value=0.0)]


@case
def old_diagonals():
    x = feed(normal(2, 3, 4))
    return [tf.raw_ops.MatrixDiagPart(input=x),
            tf.raw_ops.MatrixSetDiag(input=x, diagonal=feed(normal(2, 3))),
            tf.diag(feed(normal(2, 2))), tf.diag_part(feed(normal(2, 3, 2, 3)))]


@case
def diagonals_of_unknown_size():
    x = feed(normal(2, 3, 3), [None, None, None])
    return [tf.linalg.diag_part(x), tf.linalg.set_diag(x, 2 * tf.linalg.diag_part(x)),
            tf.raw_ops.MatrixDiagPart(input=x), tf.linalg.trace(x)]


for lower, upper in [(1, 0), (-1, 0), (0, -1), (0, 0), (1, 2)]:
    @case(name=f"band_part_{lower}_{upper}".replace("-", "m"))
    def band_part(lower=lower, upper=upper):
        return tf.linalg.band_part(feed(normal(2, 3, 4)), lower, upper)

for dtype in ["float32", "float64"]:
    @case(name=f"cholesky_{dtype}", tolerance=1e-4 if dtype == "float32" else None)
    def cholesky(dtype=dtype):
        return tf.linalg.cholesky(feed(positive(2, 3, 3, dtype=dtype)))

    @case(name=f"inverse_{dtype}", tolerance=1e-4 if dtype == "float32" else None)
    def inverse(dtype=dtype):
        x = feed(regular(2, 3, 3, dtype=dtype))
        return [tf.linalg.inv(x), tf.linalg.inv(x, adjoint=True)]

    @case(name=f"determinants_{dtype}", tolerance=1e-4 if dtype == "float32" else None)
    def determinants(dtype=dtype):
        x = feed(regular(2, 4, 4, dtype=dtype))
        return [tf.linalg.det(x), tf.linalg.slogdet(x)[1], tf.linalg.slogdet(-x)[0]]

    @case(name=f"solve_{dtype}", tolerance=1e-4 if dtype == "float32" else None)
    def solve(dtype=dtype):
        x, b = feed(regular(2, 3, 3, dtype=dtype)), feed(normal(2, 3, 2, dtype=dtype))
        return [tf.linalg.solve(x, b), tf.linalg.solve(x, b, adjoint=True)]

    @case(name=f"eigenvalues_{dtype}", tolerance=1e-3 if dtype == "float32" else None)
    def eigenvalues(dtype=dtype):
        x = feed(positive(2, 4, 4, dtype=dtype))
        e, v = tf.linalg.eigh(x)
        # what does not depend on the vectors' signs
        return [e, tf.matmul(v * tf.expand_dims(tf.exp(-e), -2), v, transpose_b=True),
                tf.linalg.eigvalsh(x)]

for lower in [True, False]:
    for adjoint in [True, False]:
        @case(name=f"triangular_{'lower' if lower else 'upper'}{'_adjoint' if adjoint else ''}",
              tolerance=1e-4)
        def triangular(lower=lower, adjoint=adjoint):
            x, b = feed(regular(2, 3, 3)), feed(normal(2, 3, 2))
            return tf.linalg.triangular_solve(x, b, lower=lower, adjoint=adjoint)


@case(tolerance=1e-4)
def matrices_without_batch():
    x, b = feed(positive(3, 3)), feed(normal(3, 1))
    return [tf.linalg.cholesky(x), tf.linalg.solve(x, b), tf.linalg.inv(x), tf.linalg.det(x),
            tf.linalg.cholesky_solve(tf.linalg.cholesky(x), b)]


@case(tolerance=1e-4)
def gaussian_log_density():
    x, l = feed(normal(5, 3)), tf.linalg.cholesky(feed(positive(3, 3)))
    z = tf.linalg.triangular_solve(l, tf.transpose(x))
    return -0.5 * tf.reduce_sum(tf.square(z), 0) - tf.reduce_sum(tf.log(tf.linalg.diag_part(l)))


@case(gradients=False, tolerance=1e-5)
def cholesky_grad():
    import numpy as np
    l = feed(np.tril(regular(2, 3, 3)).astype("float32"))
    return tf.raw_ops.CholeskyGrad(l=l, grad=feed(np.tril(normal(2, 3, 3)).astype("float32")))


@case(fails="not invertible")
def singular():
    return tf.linalg.inv(feed([[1, 2], [2, 4]], dtype="float32"))


@case(gradients=False)
def not_positive():
    # above the diagonal TensorFlow's memory is not initialised
    return tf.linalg.diag_part(tf.linalg.cholesky(feed([[1, 2], [2, 1]], dtype="float32")))


@case(gradients=False, refused="SelfAdjointEigV2 of x' x")
def singular_values():
    return tf.linalg.svd(feed(normal(3, 2)), compute_uv=False)


EQUATIONS = {
    "product": ("ij,jk->ik", (2, 3), (3, 4)),
    "attention": ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    "weighted": ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)),
    "outer": ("i,j->ij", (3,), (4,)),
    "inner": ("i,i->", (3,), (3,)),
    "dots": ("...ij,jk->...ik", (2, 2, 3), (3, 4)),
    "broadcast": ("...ij,...jk->...ik", (3, 1, 2, 3), (2, 3, 2)),
    "rows": ("ij,i->ij", (2, 3), (2,)),
    "reduced": ("ijk,k->j", (2, 3, 4), (4,)),
    "transposed": ("ijk->kij", (2, 3, 4), None),
    "sum": ("ijk->ik", (2, 3, 4), None),
    "turned_sum": ("ijk->ki", (2, 3, 4), None),
    "trace": ("ii->", (3, 3), None),
    "diagonal": ("bii->bi", (2, 3, 3), None),
}
for name, (equation, x, y) in EQUATIONS.items():
    @case(name=f"einsum_{name}")
    def einsum(equation=equation, x=x, y=y):
        operands = [feed(normal(*s)) for s in (x, y) if s is not None]
        return tf.raw_ops.Einsum(inputs=operands, equation=equation)


@case
def einsum_of_integers():
    return tf.raw_ops.Einsum(inputs=[feed(integers(-5, 5, 2, 3)), feed(integers(-5, 5, 3, 2))],
                             equation="ij,jk->ki")


@case
def einsum_of_the_library():
    x, w = feed(normal(4, 3, 2), [None, 3, 2]), feed(normal(2, 5))
    return tf.einsum("btc,cd->btd", x, w)
