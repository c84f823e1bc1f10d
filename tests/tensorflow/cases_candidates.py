"""Classes that are drawn as wrong answers: agent/ops/random_candidates.c. What is drawn differs
from TensorFlow's; what follows from it does not."""
import math

import numpy as np
from cases import case, feed, integers, tf

SAMPLERS = {"uniform": "UniformCandidateSampler", "log_uniform": "LogUniformCandidateSampler"}


def sample(kind, n, unique, classes, true=((0, 3), (7, 1))):
    return getattr(tf.raw_ops, SAMPLERS[kind])(
        true_classes=feed(true, [None, 2], "int64"), num_true=2, num_sampled=n, unique=unique,
        range_max=classes)


def probability(kind, c, classes):
    c = tf.cast(c, tf.float64)
    return tf.log((c + 2) / (c + 1)) / math.log1p(classes) if kind == "log_uniform" \
        else tf.ones_like(c) / classes


def near(x, y):
    return tf.reduce_all(tf.abs(tf.cast(x, tf.float64) / y - 1) < 1e-5)


for kind in SAMPLERS:
    @case(name=f"candidates_{kind}", gradients=False)
    def candidates(kind=kind):
        c, true, expected = sample(kind, 4000, False, 9)
        often = tf.bincount(tf.cast(c, tf.int32), minlength=9, dtype=tf.float64) / 4000
        return [true, near(expected, 4000 * probability(kind, c, 9)), tf.shape(c),
                tf.reduce_all((c >= 0) & (c < 9)),
                tf.reduce_all(tf.abs(often - probability(kind, tf.range(9), 9)) < 0.03)]

    @case(name=f"candidates_{kind}_that_differ", gradients=False)
    def candidates_that_differ(kind=kind):
        """How many tries there were follows from what is expected of one of the true classes."""
        c, true, expected = sample(kind, 8, True, 30)
        p = probability(kind, tf.constant([[0, 3], [7, 1]]), 30)
        tries = tf.round(tf.log1p(-tf.cast(true[0, 0], tf.float64)) / tf.log1p(-p[0, 0]))

        def of_all(p):
            return tf.where(tf.fill(tf.shape(p), tries > 8), -tf.math.expm1(tries * tf.log1p(-p)),
                            8 * p)
        return [tf.size(tf.unique(c)[0]), tf.reduce_all((c >= 0) & (c < 30)),
                near(true, of_all(p)) | (tries <= 8),
                near(expected, of_all(probability(kind, c, 30))) | (tries <= 8)]

    @case(name=f"candidates_{kind}_of_all", gradients=False)
    def candidates_of_all(kind=kind):
        return tf.sort(sample(kind, 12, True, 12)[0])


@case(gradients=False)
def accidental_hits():
    return list(tf.raw_ops.ComputeAccidentalHits(
        true_classes=feed(integers(0, 12, 5, 2, dtype="int64"), [None, 2]),
        sampled_candidates=feed(integers(0, 12, 9, dtype="int64"), [None]), num_true=2))


@case(gradients=False)
def no_accidental_hits():
    return list(tf.raw_ops.ComputeAccidentalHits(
        true_classes=feed(integers(0, 5, 4, 1, dtype="int64")),
        sampled_candidates=feed(np.arange(6, 9)), num_true=1))


@case(gradients=False)
def accidental_hits_as_a_loss_uses_them():
    labels = feed(integers(0, 6, 5, 1, dtype="int64"), [None, 1])
    rows, ids, weights = tf.nn.compute_accidental_hits(labels, tf.constant([4, 1, 3, 0], tf.int64),
                                                       num_true=1)
    sparse = tf.stack([tf.cast(rows, tf.int64), ids], 1)
    return tf.sparse_to_dense(sparse, [5, 4], weights, 0.0, validate_indices=False)


@case(fails="range is too small", gradients=False)
def too_many_that_differ():
    return sample("uniform", 5, True, 4, true=((0, 3), (2, 1)))[0]
