/* call_filter.h - turns a kind's verdicts on system calls into a seccomp filter. */
#ifndef COMMON_CONFINE_CALL_FILTER_H
#define COMMON_CONFINE_CALL_FILTER_H

#include "common/confine/call_sets.h"

#include <linux/filter.h>

enum { CALL_FILTER_MAX = 640 };

/* Makes the filter of a process and returns the number of its instructions. more: of
 * call_more. */
size_t call_filter_make(struct sock_filter ret[CALL_FILTER_MAX], enum confine_kind kind,
                        int more, uint32_t pid);
/* Installs it for this process and whatever it executes. It never kills. Returns 0, or -1 if
 * the kernel has no seccomp or this is another architecture. */
int call_filter_install(enum confine_kind kind, int more);
/* Whether the kernel and the architecture support it. */
int call_filter_is_possible(void);

#endif
