/* trace.h - records what each process of a run does over time (`brood trace`).
 *
 * A span is a period during which one process does one kind of work. While recording is
 * off, a call costs one test of a flag.
 *
 * Units    nanoseconds of CLOCK_MONOTONIC (uv_hrtime), which all processes of a machine
 *          share.
 * Bounds   at most TRACE_MAX_SPANS spans are kept; further ones are counted and dropped.
 * Threads  loop thread only; there is one recording per process.
 * Source   the file: Chrome's "Trace Event Format", complete events ("ph": "X").
 */
#ifndef SUPERVISOR_TRACE_TRACE_H
#define SUPERVISOR_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define TRACE_MAX_SPANS  ((size_t)1 << 20)
#define TRACE_MAX_NAMES  1024 /* of processes, and the same number of kinds of work */
#define TRACE_NAME_BYTES 64

extern int trace_recording; /* private: use trace_is_on */

static inline int trace_is_on(void)
{
    return trace_recording;
}

struct trace_span {
    const char *process; /* "agent_0", copied; NULL: this process, "supervisor" */
    pid_t pid;           /* of that process; 0: this process */
    const char *work;    /* e.g. "learn"; copied */
    uint64_t begin_ns, end_ns;
    uint32_t id;    /* request id; 0: none */
    uint64_t bytes; /* of the request and its answer */
};

/* Starts a new, empty recording. */
void trace_start(void);
void trace_stop(void);
/* Frees the recording; call it only after trace_stop. */
void trace_clear(void);
/* Does nothing while recording is off. A span that begins before the recording, or ends
 * before it begins, is ignored. In names, characters other than letters, digits and
 * _ . - become '?', because agents send them. */
void trace_add(const struct trace_span *span);

/* Nested spans of this process. The time of an inner span is not counted in the share of
 * the outer one. */
struct trace_mark {
    uint64_t begin_ns, inner_ns; /* 0, 0: recording was off */
};
struct trace_mark trace_mark_now(void);
void trace_end_at_mark(struct trace_mark m, const char *work);

static inline struct trace_mark trace_begin(void)
{
    return trace_is_on() ? trace_mark_now() : (struct trace_mark){0};
}

static inline void trace_end(struct trace_mark m, const char *work)
{
    if (trace_is_on())
        trace_end_at_mark(m, work);
}

/* Writes the recording as one JSON object; the caller checks f for errors. */
void trace_write(FILE *f);

/* The time that one process spent on one kind of work. */
struct trace_share {
    const char *process, *work; /* valid until trace_clear */
    uint64_t count, ns;
};
/* Fills ret, grouped by process: this process first, the others in the order of their
 * first spans; within a process, the largest share first. Returns the number of shares,
 * at most max. */
size_t trace_shares(struct trace_share *ret, size_t max);
uint64_t trace_length_ns(void); /* from start to stop */
uint64_t trace_left_out(void);  /* number of dropped spans */

#endif
