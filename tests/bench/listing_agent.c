/* listing_agent.c - the shipped brood-agent, which lists the matrix products of its
 * stages in FOLDER/NAME.products, a line of numbers each (bench_algorithms.c reads them).
 * FOLDER is the value of BROOD_FAULT, the variable that the launcher passes on to agents
 * in tests.
 *
 * It lists the products of updates LISTED_FROM to LISTED_FROM + LISTED - 1. At its exit
 * it adds a line for each of the first TIMED updates: "update", its number, and the
 * processor time of its stages and of its runs of the graph, in nanoseconds.
 */
#include "agent/agent.h"
#include "agent/loop/service_internal.h"
#include "agent/session/session_internal.h"
#include "common/confine/confine.h"
#include "tests/bench/listing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PRODUCTS = 4096 }; /* of one run of the graph */

void __real_confine_calls(enum confine_kind kind);
void __wrap_confine_calls(enum confine_kind kind);
int __real_handle_stage(struct service *s, const struct msg *m, struct msg_out *out,
                        struct err *err);
int __wrap_handle_stage(struct service *s, const struct msg *m, struct msg_out *out,
                        struct err *err);
int __real_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);

static const char *own_name;
static FILE *list;
static int is_listing;
static struct {
    uint64_t stage_ns, run_ns;
} spent[TIMED];
static uint64_t *run_ns; /* of the update under way; NULL: none */

static uint64_t clock_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Opens the list before the agent is confined: later, no file can be opened for
 * writing. */
void __wrap_confine_calls(enum confine_kind kind)
{
    const char *folder = getenv("BROOD_FAULT");
    char path[4096];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s.products", folder, own_name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    list = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (list == NULL)
        abort();
    __real_confine_calls(kind);
}

int __wrap_handle_stage(struct service *s, const struct msg *m, struct msg_out *out,
                        struct err *err)
{
    const uint64_t began = clock_ns();
    uint64_t update = 0;
    int r;

    (void)msg_get_u64(&m->body, "update", UINT64_MAX, &update, NULL);
    is_listing = update >= LISTED_FROM && update < LISTED_FROM + LISTED;
    run_ns = update < TIMED ? &spent[update].run_ns : NULL;
    r = __real_handle_stage(s, m, out, err);
    if (run_ns != NULL)
        spent[update].stage_ns += clock_ns() - began;
    run_ns = NULL;
    if (is_listing && fflush(list) != 0)
        abort();
    is_listing = 0;
    return r;
}

int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err)
{
    static struct dense products[MAX_PRODUCTS];
    const uint64_t began = run_ns != NULL ? clock_ns() : 0;
    const int r = __real_session_run(s, args, ret, err);
    size_t n;

    if (run_ns != NULL)
        *run_ns += clock_ns() - began;
    if (!is_listing)
        return r;
    n = session_gemms(s, args, products, MAX_PRODUCTS);
    if (n > MAX_PRODUCTS)
        abort();
    for (size_t i = 0; i < n; i++) {
        const struct dense *d = &products[i];

        (void)fprintf(list, "%lld %lld %lld %lld %lld %lld %d %d\n", (long long)d->m,
                      (long long)d->n, (long long)d->k, (long long)d->lda,
                      (long long)d->ldb, (long long)d->ldc, d->transposed_a,
                      d->transposed_b);
    }
    return r;
}

int main(int argc, char **argv)
{
    int status;

    own_name = argc > 3 ? argv[3] : "agent";
    status = agent_main(argc, argv, NULL);
    for (int i = 0; list != NULL && i < TIMED; i++)
        (void)fprintf(list, "update %d %llu %llu\n", i,
                      (unsigned long long)spent[i].stage_ns,
                      (unsigned long long)spent[i].run_ns);
    return list == NULL || fclose(list) == 0 ? status : 1;
}
