#include "supervisor/trace/trace.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

int trace_recording;

struct kept_span {
    uint64_t begin_ns, ns, own_ns, bytes;
    uint32_t id;
    uint16_t process, work; /* indices into struct names */
};

/* Distinct names, in the order of their first use. */
struct names {
    char text[TRACE_MAX_NAMES][TRACE_NAME_BYTES];
    pid_t pid[TRACE_MAX_NAMES]; /* the newest pid of the process of that name */
    size_t n;
};

static struct {
    struct kept_span *spans;
    size_t n, cap;
    struct names processes, works;
    uint64_t left_out, start_ns, stop_ns;
    uint64_t inner_ns; /* total of this process's finished spans */
} recording;

void trace_clear(void)
{
    CHECK(!trace_recording);
    free(recording.spans);
    memset(&recording, 0, sizeof(recording));
}

/* The index of the name, which is added if it is new. All names beyond the limit share
 * the last index. */
static uint16_t number_of(struct names *names, const char *name)
{
    char copy[TRACE_NAME_BYTES];
    size_t n = 0, i = 0;

    for (; name[n] != '\0' && n + 1 < TRACE_NAME_BYTES; n++)
        copy[n] = isalnum((unsigned char)name[n]) || strchr("_.- ", name[n]) != NULL
                      ? name[n]
                      : '?';
    copy[n] = '\0';
    while (i < names->n && strcmp(names->text[i], copy) != 0)
        i++;
    if (i == TRACE_MAX_NAMES)
        return TRACE_MAX_NAMES - 1;
    if (i == names->n) {
        strcpy(names->text[i], i == TRACE_MAX_NAMES - 1 ? "other" : copy);
        names->n++;
    }
    return (uint16_t)i;
}

void trace_start(void)
{
    trace_clear();
    recording.start_ns = uv_hrtime();
    recording.processes.pid[number_of(&recording.processes, "supervisor")] = getpid();
    trace_recording = 1;
}

void trace_stop(void)
{
    if (trace_recording)
        recording.stop_ns = uv_hrtime();
    trace_recording = 0;
}

static void add(const struct trace_span *span, uint64_t own_ns)
{
    uint16_t process = 0;

    if (!trace_recording || span->begin_ns < recording.start_ns ||
        span->end_ns < span->begin_ns)
        return;
    if (recording.n == TRACE_MAX_SPANS) {
        recording.left_out++;
        return;
    }
    ARRAY_GROW(recording.spans, recording.n, recording.cap);
    if (span->process != NULL) {
        process = number_of(&recording.processes, span->process);
        recording.processes.pid[process] = span->pid;
    }
    recording.spans[recording.n++] =
        (struct kept_span){.begin_ns = span->begin_ns,
                           .ns = span->end_ns - span->begin_ns,
                           .own_ns = own_ns,
                           .bytes = span->bytes,
                           .id = span->id,
                           .process = process,
                           .work = number_of(&recording.works, span->work)};
}

void trace_add(const struct trace_span *span)
{
    add(span, span->end_ns - span->begin_ns);
}

struct trace_mark trace_mark_now(void)
{
    return (struct trace_mark){uv_hrtime(), recording.inner_ns};
}

void trace_end_at_mark(struct trace_mark m, const char *work)
{
    const struct trace_span span = {
        .work = work, .begin_ns = m.begin_ns, .end_ns = uv_hrtime()};
    const uint64_t ns = span.end_ns - span.begin_ns;

    if (m.begin_ns < recording.start_ns)
        return;
    add(&span, ns - (recording.inner_ns - m.inner_ns));
    recording.inner_ns = m.inner_ns + ns;
}

/* ---- the file ---- */

void trace_write(FILE *f)
{
    (void)fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", f);
    for (size_t i = 0; i < recording.processes.n; i++) {
        const int pid = (int)recording.processes.pid[i];

        (void)fprintf(f,
                      "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
                      "\"tid\": %d, \"args\": {\"name\": \"%s\"}},\n"
                      "{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, "
                      "\"tid\": %d, \"args\": {\"sort_index\": %zu}}",
                      i > 0 ? ",\n" : "", pid, pid, recording.processes.text[i], pid, pid,
                      i);
    }
    for (size_t i = 0; i < recording.n; i++) {
        const struct kept_span *s = &recording.spans[i];
        const int pid = (int)recording.processes.pid[s->process];

        (void)fprintf(f,
                      ",\n{\"ph\": \"X\", \"name\": \"%s\", \"cat\": \"brood\", "
                      "\"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f",
                      recording.works.text[s->work], pid, pid,
                      (double)(s->begin_ns - recording.start_ns) / 1e3,
                      (double)s->ns / 1e3);
        if (s->id != 0)
            (void)fprintf(f, ", \"args\": {\"id\": %" PRIu32 ", \"bytes\": %" PRIu64 "}",
                          s->id, s->bytes);
        (void)fputs("}", f);
    }
    (void)fputs("\n]}\n", f);
}

/* ---- shares ---- */

static size_t process_number(const struct trace_share *s)
{
    return (size_t)(s->process - recording.processes.text[0]) / TRACE_NAME_BYTES;
}

static int compare_shares(const void *pa, const void *pb)
{
    const size_t a = process_number(pa), b = process_number(pb);
    const uint64_t a_ns = ((const struct trace_share *)pa)->ns;
    const uint64_t b_ns = ((const struct trace_share *)pb)->ns;

    return a != b ? (a > b) - (a < b) : (a_ns < b_ns) - (a_ns > b_ns);
}

size_t trace_shares(struct trace_share *ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < recording.n; i++) {
        const struct kept_span *s = &recording.spans[i];
        const char *process = recording.processes.text[s->process];
        const char *work = recording.works.text[s->work];
        size_t k = 0;

        while (k < n && (ret[k].process != process || ret[k].work != work))
            k++;
        if (k == n && n == max)
            continue;
        if (k == n)
            ret[n++] = (struct trace_share){.process = process, .work = work};
        ret[k].count++;
        ret[k].ns += s->own_ns;
    }
    qsort(ret, n, sizeof(*ret), compare_shares);
    return n;
}

uint64_t trace_length_ns(void)
{
    return (trace_recording ? uv_hrtime() : recording.stop_ns) - recording.start_ns;
}

uint64_t trace_left_out(void)
{
    return recording.left_out;
}
