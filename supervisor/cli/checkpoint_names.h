/* checkpoint_names.h - tensors of a checkpoint by the names that people type. */
#ifndef SUPERVISOR_CLI_CHECKPOINT_NAMES_H
#define SUPERVISOR_CLI_CHECKPOINT_NAMES_H

#include "common/ckpt/bundle.h"

/* ERR_NOT_FOUND in TensorFlow's words, with the nearest name behind them. */
int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err);

#endif
