/* trace.h - what the processes of a run do, and when, recorded for a while.
 *
 * A span is a stretch of time in which one process does one thing. While nobody records, a
 * call costs one test of a flag.
 *
 * Units    nanoseconds of CLOCK_MONOTONIC (uv_hrtime), which all processes of a machine
 *          share.
 * Bounds   TRACE_MAX_SPANS are kept; what comes after them is counted and left out.
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
#define TRACE_MAX_NAMES  1024 /* of processes, and of what they do */
#define TRACE_NAME_BYTES 64

extern int trace_recording; /* read only: trace_is_on */

static inline int trace_is_on(void)
{
    return trace_recording;
}

struct trace_span {
    const char *process; /* "agent_0", copied; NULL: this process, "supervisor" */
    pid_t pid;           /* of it; this process: 0 */
    const char *work;    /* "learn"; copied */
    uint64_t begin_ns, end_ns;
    uint32_t id;    /* of the request; 0: none */
    uint64_t bytes; /* of the request and its answer */
};

/* Recording begins now, with nothing recorded. */
void trace_start(void);
void trace_stop(void);
/* Drops what was recorded and its memory; not while something is recorded. */
void trace_clear(void);
/* Does nothing while nobody records. A span that begins before the recording does, or
 * ends before it begins, is ignored. Characters of names other than letters, digits and
 * _ . - become '?', for an agent sends them. */
void trace_add(const struct trace_span *span);

/* Spans of this process, one inside another as its functions are. What the inner ones take
 * does not count for the share of the outer one. */
struct trace_mark {
    uint64_t begin_ns, inner_ns; /* 0, 0: nobody records */
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

/* How much of the time one process spent on one kind of work. */
struct trace_share {
    const char *process, *work; /* valid until trace_clear */
    uint64_t count, ns;
};
/* By process in the order of their first spans, this one first; the largest share first.
 * Returns how many there are, at most max. */
size_t trace_shares(struct trace_share *ret, size_t max);
uint64_t trace_length_ns(void); /* from start to stop */
uint64_t trace_left_out(void);  /* spans */

#endif
