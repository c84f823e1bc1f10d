/* string_feeds.h - reads of string variables in a run.
 *
 * In a plan strings are constants, while those of variables lie in the block, without pointers
 * (common/tensor/string_slab.h). So a run that reads such a variable is fed its value, which
 * becomes a part of the plan's key. A run reads the value of before it; one that also writes the
 * variable is refused.
 */
#ifndef AGENT_FLOW_STRING_FEEDS_H
#define AGENT_FLOW_STRING_FEEDS_H

#include "agent/plan/run.h"
#include "agent/vars/var_store.h"

/* Whether the operation is a variable of strings. */
int is_string_variable(const struct operation *op);

/* Remembers what each kind of runs reads. graph and vars must outlive it. */
struct string_feeds *string_feeds_new(const struct graph *g, struct var_store *vars);
void string_feeds_free(struct string_feeds *f); /* NULL is fine */

/* Sets *ret to the arguments of the run with feeds of what it reads. Call string_feeds_done
 * also after an error. ERR_UNINITIALIZED, ERR_UNSUPPORTED; those of run_check. */
int string_feeds_add(struct string_feeds *f, struct run_args *ret,
                     const struct run_args *args, struct err *err);
void string_feeds_done(struct run_args *ret, const struct run_args *args);

#endif
