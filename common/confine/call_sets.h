/* call_sets.h - which system calls each kind of process may use.
 *
 * An allow-list of sets of calls: whatever no set of a kind names, fails. If it is as new as
 * Linux 5.1 or newer, it fails with ENOSYS, as if the kernel lacked it, because C libraries
 * try new calls first and then use older ones; an older call fails with EPERM. Calls of
 * kernels to come are refused until a set names them.
 *
 * Source   Linux's arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h
 */
#ifndef COMMON_CONFINE_CALL_SETS_H
#define COMMON_CONFINE_CALL_SETS_H

#include "common/confine/confine.h"

#include <stddef.h>
#include <stdint.h>

/* The numbers of all calls that sets name are smaller. */
enum { CALLS_END = 512 };

/* What happens to a call. */
enum call_verdict {
    CALL_EPERM,
    CALL_ENOSYS,
    CALL_ALLOW,
    CALL_CHECKS,                  /* from here on arguments decide: call_checks */
    CALL_OPEN_READ = CALL_CHECKS, /* opens for reading only */
    CALL_OPENAT_READ,
    CALL_OF_ITSELF, /* the first argument is 0 or its own pid */
    CALL_LIMITS,    /* prlimit64 of itself that changes nothing: with LOW and HIGH */
    /* prlimit64 that changes nothing of others: a limit of its time kills a process, where
     * signals are refused */
    CALL_LIMITS_OWN,
    CALL_LIMITS_LOW,
    CALL_LIMITS_HIGH,
    CALL_FCNTL,
    CALL_IOCTL_FEW,
    CALL_IOCTL_MOST,
    CALL_PRCTL,
    CALL_MADVISE,
    CALL_CLONE,
    CALL_SOCKET,
    CALL_VERDICTS,
};

/* Compares half an argument. If that holds, `then` happens, or else `otherwise`; a verdict with
 * a check must be a later one. */
struct call_check {
    unsigned half; /* 2 i is the low half of argument i, 2 i + 1 the high one; i from 0 */
    enum {
        CHECK_NO_BITS, /* it has none of the bits of value[0] */
        CHECK_ONE_OF,  /* it equals a value */
        CHECK_NONE_OF, /* it equals no value */
        CHECK_ITSELF,  /* it is 0 or this process's pid */
    } how;
    size_t n_values;
    const uint32_t *values;
    enum call_verdict then, otherwise; /* left out: EPERM */
};

extern const struct call_check call_checks[CALL_VERDICTS];

/* What a kind may do besides. */
enum call_more {
    CALLS_DEBUGS = 1,  /* look into other processes, if it may start programs at all */
    CALLS_THREADS = 2, /* of a program: threads, and processes with pipes between them */
    CALLS_WRITES = 4,  /* of a program: what changes files; Landlock says which */
};

/* Fills in the verdict on every number below CALLS_END; all others are ENOSYS. more: of
 * call_more. */
void call_sets_fill(uint8_t ret[CALLS_END], enum confine_kind kind, int more);

#endif
