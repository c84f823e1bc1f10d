"""Cells that are one operation, and CTC: agent/ops/rnn.c, ctc.c."""
import numpy as np

from cases import case, feed, integers, normal, tf, uniform

# ---- cells ----


def weights(inputs, cells):
    return dict(w=feed(normal(inputs + cells, 4 * cells)), wci=feed(normal(cells)),
                wcf=feed(normal(cells)), wco=feed(normal(cells)), b=feed(normal(4 * cells)))


def states(*shape):
    return dict(cs_prev=feed(normal(*shape)), h_prev=feed(normal(*shape)))


CELLS = {"plain": {}, "peephole": dict(use_peephole=True), "clipped": dict(cell_clip=0.3),
         "bias": dict(forget_bias=0.2)}
for name, options in CELLS.items():
    # version 2 has the gradients of sequences only
    @case(name=f"lstm_block_cell_{name}", gradients=False, floor=2e-6)
    def lstm_cell(options=options):
        return list(tf.raw_ops.LSTMBlockCell(x=feed(normal(3, 4)), **states(3, 2),
                                             **weights(4, 2), **options))

    @case(name=f"block_lstm_{name}", floor=1e-5)
    def lstm_sequence(options=options):
        y = tf.raw_ops.BlockLSTM(seq_len_max=tf.constant(5, tf.int64), x=feed(normal(5, 3, 4)),
                                 **states(3, 2), **weights(4, 2), **options)
        return [y.cs, y.h]

for peephole in (False, True):
    @case(name=f"lstm_block_cell_grad_{peephole}", gradients=False, floor=4e-6)
    def lstm_cell_grad(peephole=peephole):
        kept = {k: feed(uniform(-0.9, 0.9, 3, 2))
                for k in ("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad")}
        return list(tf.raw_ops.LSTMBlockCellGrad(x=feed(normal(3, 4)), **states(3, 2),
                                                 **weights(4, 2), **kept,
                                                 use_peephole=peephole))

    # TensorFlow differentiates version 2 with version 1's node, whose gates are in another order
    @case(name=f"block_lstm_v2_{peephole}", gradients=False, floor=1e-5)
    def lstm_sequence_v2(peephole=peephole):
        y = tf.raw_ops.BlockLSTMV2(seq_len_max=feed(3, dtype="int64"), x=feed(normal(4, 3, 4)),
                                   **states(3, 2), **weights(4, 2), use_peephole=peephole)
        return [y.cs, y.h]

    @case(name=f"block_lstm_grad_v2_{peephole}", gradients=False, floor=4e-5)
    def lstm_sequence_grad_v2(peephole=peephole):
        kept = {k: feed(uniform(-0.9, 0.9, 4, 3, 2))
                for k in ("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")}
        return list(tf.raw_ops.BlockLSTMGradV2(
            seq_len_max=feed(3, dtype="int64"), x=feed(normal(4, 3, 4)), **states(3, 2),
            **weights(4, 2), **kept, use_peephole=peephole))


@case(floor=1e-5)
def block_lstm_part():
    y = tf.raw_ops.BlockLSTM(seq_len_max=feed(2, dtype="int64"), x=feed(normal(4, 3, 4)),
                             **states(3, 2), **weights(4, 2))
    return [y.cs, y.h]


def gru_weights():
    return dict(w_ru=feed(normal(6, 4)), w_c=feed(normal(6, 2)), b_ru=feed(normal(4)),
                b_c=feed(normal(2)))


@case(gradients=False, floor=2e-6)
def gru_block_cell():
    return list(tf.raw_ops.GRUBlockCell(x=feed(normal(3, 4)), h_prev=feed(normal(3, 2)),
                                        **gru_weights()))


@case(gradients=False, floor=4e-6)
def gru_block_cell_grad():
    kept = {k: feed(uniform(-0.9, 0.9, 3, 2)) for k in ("r", "u", "c", "d_h")}
    return list(tf.raw_ops.GRUBlockCellGrad(x=feed(normal(3, 4)), h_prev=feed(normal(3, 2)),
                                            **gru_weights(), **kept))


# ---- CTC ----


def labels(*sequences):
    """As a sparse tensor's indices and values."""
    at = [[b, i] for b, s in enumerate(sequences) for i in range(len(s))]
    return dict(labels_indices=feed(np.reshape(at, (-1, 2)), dtype="int64"),
                labels_values=feed([k for s in sequences for k in s], dtype="int32"))


LOSSES = {
    "plain": ([[0, 1], [2]], [6, 4], {}),
    "repeated": ([[1, 1, 2], [0, 0]], [6, 5], {}),
    "unmerged": ([[1, 1, 2], [0, 0]], [6, 5], dict(ctc_merge_repeated=False)),
    "collapsed": ([[1, 1, 2], [0, 0]], [6, 5], dict(preprocess_collapse_repeated=True)),
    "no_path": ([[1, 1], [0, 2]], [2, 5], {}),
    "null_labels": ([[2, 3], [1, 4]], [4, 5], {}),
    "too_long_ignored": ([[0, 1, 2], [2]], [2, 5],
                         dict(ignore_longer_outputs_than_inputs=True)),
}
for name, (sequences, lengths, options) in LOSSES.items():
    for dtype in ["float32", "float64"]:
        # TensorFlow adds logarithms in float32 in any case
        @case(name=f"ctc_loss_{name}_{dtype}", tolerance=4e-6, floor=4e-6)
        def ctc_loss(sequences=sequences, lengths=lengths, options=options, dtype=dtype):
            loss = tf.raw_ops.CTCLoss(inputs=feed(normal(6, 2, 4, dtype=dtype)),
                                      **labels(*sequences),
                                      sequence_length=feed(lengths, dtype="int32"), **options)
            return [loss.loss, tf.stop_gradient(loss.gradient)]

FAILURES = {"too long": ([[0, 1, 2], [2]], [2, 5], "3 labels in 2 steps"),
            "no_labels": ([[], [2]], [2, 5], "sequence 0 has no labels"),
            "negative": ([[1], [-2]], [2, 5], "label -2 of sequence 1 is negative"),
            "after_null": ([[3, 1], [2]], [2, 5], "label 1 of sequence 0 follows"),
            "more_steps": ([[1], [2]], [2, 7], "sequence_length[1] is 7 of 6")}
for name, (sequences, lengths, why) in FAILURES.items():
    @case(name=f"ctc_loss_fails_{name.replace(' ', '_')}", fails=why)
    def ctc_fails(sequences=sequences, lengths=lengths):
        return list(tf.raw_ops.CTCLoss(inputs=feed(normal(6, 2, 4)), **labels(*sequences),
                                       sequence_length=feed(lengths, dtype="int32")))


@case(tolerance=4e-6, floor=4e-6)
def ctc_loss_of_sparse():
    sparse = tf.SparseTensor(feed([[0, 0], [0, 1], [1, 0]], dtype="int64"),
                             feed([0, 1, 2], dtype="int32"), feed([2, 2], dtype="int64"))
    return tf.nn.ctc_loss(sparse, feed(normal(2, 6, 4)), feed([6, 4], dtype="int32"),
                          time_major=False)


for merges in (False, True):
    for blank in (-1, 0):
        @case(name=f"ctc_greedy_{merges}_{blank + 1}", gradients=False)
        def ctc_greedy(merges=merges, blank=blank):
            return list(tf.raw_ops.CTCGreedyDecoder(
                inputs=feed(integers(-2, 3, 8, 3, 3).astype("float32")),
                sequence_length=feed([8, 0, 5], dtype="int32"), merge_repeated=merges,
                blank_index=blank))


@case(gradients=False)
def ctc_greedy_decoder():
    decoded, score = tf.nn.ctc_greedy_decoder(feed(normal(6, 2, 4)), feed([6, 4], dtype="int32"))
    return [decoded[0].indices, decoded[0].values, decoded[0].dense_shape, score]
