/* checkpoint_names.h - finds a checkpoint's tensor by the name that a person typed. */
#ifndef SUPERVISOR_CLI_CHECKPOINT_NAMES_H
#define SUPERVISOR_CLI_CHECKPOINT_NAMES_H

#include "common/ckpt/bundle.h"

/* ERR_NOT_FOUND: the message is TensorFlow's, followed by the most similar name. */
int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err);

#endif
