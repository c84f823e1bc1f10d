/* random_parts.h - draws of classes, shared by the random ops. */
#ifndef AGENT_OPS_RANDOM_PARTS_H
#define AGENT_OPS_RANDOM_PARTS_H

#include "agent/ops/kernel.h"

/* Draws from rows of logits (in 0: batch, classes) into out 0 (batch, n): uniform(ctx, i) in
 * [0, 1) decides about element i. out 1 is scratch memory, class_scratch. A class whose logit is
 * not finite is never drawn; if there is no other, the number is that of the classes, as in
 * TensorFlow. */
int draw_classes(const struct kernel_args *a,
                 double (*uniform)(const void *ctx, int64_t i), const void *ctx);
int64_t class_scratch(const struct shape_args *args);
/* (rows of input 0, the value of input 1) */
int shape_classes(const struct shape_args *args);

#endif
