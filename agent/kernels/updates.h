/* updates.h - the steps of the optimisers: new values of a variable and its slots.
 *
 * updates.c is built once for float and once for double. Both follow TensorFlow's kernels
 * operation by operation: another order of operations shows where nearly equal numbers are
 * subtracted (ftrl, rms_centered). Adam of floats is in ops/training.c, too, for whole blocks.
 * Source   core/kernels/training_ops.cc of TensorFlow 1.13 and 2.x.
 */
#ifndef AGENT_KERNELS_UPDATES_H
#define AGENT_KERNELS_UPDATES_H

#include <stddef.h>

enum update_kind {
    UPDATE_DESCENT,
    UPDATE_PROXIMAL_DESCENT,
    UPDATE_MOMENTUM,
    UPDATE_KERAS_MOMENTUM,
    UPDATE_RMS,
    UPDATE_RMS_CENTERED,
    UPDATE_ADAGRAD,
    UPDATE_ADAGRAD_V2,
    UPDATE_PROXIMAL_ADAGRAD,
    UPDATE_ADAGRAD_DA,
    UPDATE_ADADELTA,
    UPDATE_FTRL,
    UPDATE_FTRL_V2,
    UPDATE_ADAM,
    UPDATE_ADAM_AMSGRAD,
    UPDATE_ADAMAX,
    UPDATE_ADD_SIGN,
    UPDATE_POWER_SIGN,
    N_UPDATES
};

enum { UPDATE_MAX_VARIABLES = 4, UPDATE_MAX_SCALARS = 6 };

/* One step. Element i of every array belongs to element i of the variable. Arrays may be the same,
 * but not overlap otherwise. */
struct update {
    void *variable[UPDATE_MAX_VARIABLES]; /* the variable, then its slots, as in the op */
    const void *grad;                     /* may be the memory of a variable */
    size_t n;
    double scalar[UPDATE_MAX_SCALARS]; /* learning rate and so on, in the op's order */
    /* use_nesterov, update_slots (0: the slot stays) or multiply_linear_by_lr, where the op has it */
    int option;
    int is_sparse; /* the kernels of sparse gradients round some sums otherwise */
};
typedef void (*update_fn)(const struct update *u);

extern const update_fn updates_float[N_UPDATES], updates_double[N_UPDATES];

#endif
