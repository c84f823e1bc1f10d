"""Which boxes are kept: agent/ops/boxes.c."""
import numpy as np
from cases import case, feed, integers, normal, tf, uniform


def some_boxes(n=24):
    """Opposite corners in any order, of boxes that overlap; two are alike, one has no area."""
    at, size = uniform(0, 6, n, 2), uniform(0.5, 4, n, 2)
    boxes = np.concatenate([at, at + size], 1)
    boxes[::3] = boxes[::3][:, [2, 1, 0, 3]]
    boxes[7], boxes[11, 2] = boxes[3], boxes[11, 0]
    return boxes.astype("float32")


def some_scores(n=24):
    """In steps, so that some are equal."""
    return (integers(0, 9, n) / 8).astype("float32")


def suppress(version, n=24, most=8, scores=None, **options):
    given = dict(boxes=feed(some_boxes(n), shape=[None, 4]),
                 scores=feed(some_scores(n) if scores is None else scores, shape=[None]),
                 max_output_size=most, iou_threshold=0.3, **options)
    ret = getattr(tf.raw_ops, version)(**given)
    return list(ret) if isinstance(ret, tuple) else ret


@case(gradients=False)
def suppressed():
    return suppress("NonMaxSuppression")


@case(gradients=False)
def suppressed_v2():
    return suppress("NonMaxSuppressionV2")


@case(gradients=False)
def suppressed_v3():
    return suppress("NonMaxSuppressionV3", score_threshold=0.4, most=20)


for padded in (False, True):
    @case(name=f"suppressed_v4{'_padded' * padded}", gradients=False)
    def suppressed_v4(padded=padded):
        return suppress("NonMaxSuppressionV4", score_threshold=0.5, most=20,
                        pad_to_max_output_size=padded)

    @case(name=f"suppressed_v5{'_padded' * padded}", gradients=False)
    def suppressed_v5(padded=padded):
        return suppress("NonMaxSuppressionV5", score_threshold=0.1, soft_nms_sigma=0.0,
                        pad_to_max_output_size=padded)


@case(gradients=False)
def suppressed_softly():
    return suppress("NonMaxSuppressionV5", score_threshold=0.2, soft_nms_sigma=0.5, most=24)


@case(gradients=False)
def suppressed_by_overlaps():
    return tf.raw_ops.NonMaxSuppressionWithOverlaps(
        overlaps=feed(uniform(0, 1, 12, 12)), scores=feed(some_scores(12)), max_output_size=6,
        overlap_threshold=0.6, score_threshold=0.1)


@case(gradients=False)
def suppressed_none():
    return suppress("NonMaxSuppressionV3", n=12, most=0, score_threshold=0.0)


@case(gradients=False)
def suppressed_of_none():
    return tf.raw_ops.NonMaxSuppressionV3(
        boxes=feed(np.zeros((0, 4), "float32")), scores=feed(np.zeros(0, "float32")),
        max_output_size=3, iou_threshold=0.5, score_threshold=0.0)


@case(gradients=False)
def suppressed_scores_that_are_not_finite():
    scores = some_scores(12)
    scores[2], scores[5], scores[9] = np.nan, -np.inf, np.inf
    return suppress("NonMaxSuppressionV2", n=12, most=12, scores=scores)


@case(gradients=False)
def suppressed_and_gathered():
    """As detectors use it: the boxes that are kept, of a fed number."""
    boxes, scores = feed(some_boxes(), shape=[None, 4]), feed(some_scores(), shape=[None])
    kept = tf.image.non_max_suppression(boxes, scores, feed(5, dtype="int32"), 0.4)
    return [tf.gather(boxes, kept), tf.gather(scores, kept), tf.size(kept)]


@case(fails="below 0", gradients=False)
def suppressed_of_negative_size():
    return suppress("NonMaxSuppressionV2", most=-1)


@case(fails="iou_threshold must be in [0, 1]", gradients=False)
def suppressed_above_one():
    return tf.raw_ops.NonMaxSuppressionV2(
        boxes=feed(some_boxes(12)), scores=feed(some_scores(12)), max_output_size=3,
        iou_threshold=feed(1.5, dtype="float32"))


@case(gradients=False)
def boxes_that_overlap():
    boxes, scores = feed(uniform(0, 2, 20, 4)), feed(uniform(0, 1, 20), [None])
    of = dict(boxes=boxes, scores=scores)
    return [tf.raw_ops.NonMaxSuppression(**of, max_output_size=7, iou_threshold=0.3),
            tf.image.non_max_suppression(boxes, scores, feed(20, dtype="int32"), 0.2),
            tf.image.non_max_suppression(boxes, scores, 20, 0.6, score_threshold=0.4),
            *tf.image.non_max_suppression_padded(boxes, scores, 20, 0.2, 0.3,
                                                 pad_to_max_output_size=True)]


@case(gradients=False)
def boxes_with_equal_scores():
    kept = tf.image.non_max_suppression(feed([[0, 0, 1, 1]] * 2 + [[1, 1, 2, 2]], dtype="float32"),
                                        feed([0.5, 0.5, 0.5], dtype="float32"), 3)
    return [kept, tf.gather(feed(normal(3, 4)), kept)]
