/* tensor_check.h - checks tensors that another process sent. */
#ifndef SUPERVISOR_ROLLOUT_TENSOR_CHECK_H
#define SUPERVISOR_ROLLOUT_TENSOR_CHECK_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"

/* ERR_NONFINITE: "<what>: nan at 17" for float32; other types are finite. The data need
 * not be aligned. */
int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err);

#endif
