#include "supervisor/env/assignment.h"

#include <math.h>

static const size_t NONE = (size_t)-1;

struct assignment {
    size_t n;
    const double *cost; /* (n, n) */
    size_t *job;        /* [worker] */
    size_t *worker;     /* [job]; NONE: still free */
    double *wage;       /* [worker] the dual variables: cost - wage - price >= 0, */
    double *price;      /* [job]    and 0 for the assigned pairs */
    /* The search for a path: */
    double *length; /* [job] of the shortest path found so far */
    size_t *from;   /* [job] the worker before it on that path */
    size_t *left;   /* jobs whose paths may still become shorter, n_left of them ... */
    size_t n_left;  /* ... and behind them those that are final, the first one last */
};

struct assignment *assignment_new(size_t n, struct arena *arena)
{
    struct assignment *a = ARENA_NEW(arena, struct assignment);

    *a = (struct assignment){.n = n,
                             .job = ARENA_ARRAY(arena, size_t, n),
                             .worker = ARENA_ARRAY(arena, size_t, n),
                             .wage = ARENA_ARRAY(arena, double, n),
                             .price = ARENA_ARRAY(arena, double, n),
                             .length = ARENA_ARRAY(arena, double, n),
                             .from = ARENA_ARRAY(arena, size_t, n),
                             .left = ARENA_ARRAY(arena, size_t, n)};
    return a;
}

/* Continues the paths by one step from `worker`, to which the path has the length
 * `so_far`. Takes the job with the shortest path out of those left, and returns it; among
 * equal ones the last free job or, if none is free, the first job. */
static size_t extend(struct assignment *a, size_t worker, double so_far)
{
    double least = (double)INFINITY;
    size_t best = 0, job;

    for (size_t i = 0; i < a->n_left; i++) {
        const size_t j = a->left[i];
        const double length =
            so_far + a->cost[worker * a->n + j] - a->wage[worker] - a->price[j];

        if (length < a->length[j]) {
            a->length[j] = length;
            a->from[j] = worker;
        }
        if (a->length[j] < least || (a->length[j] == least && a->worker[j] == NONE)) {
            least = a->length[j];
            best = i;
        }
    }
    job = a->left[best];
    a->left[best] = a->left[--a->n_left];
    a->left[a->n_left] = job;
    return job;
}

/* Changes the dual variables so that no reduced cost is below 0, after a search that
 * ended with a path of length `total`. */
static void change_duals(struct assignment *a, size_t worker, double total)
{
    a->wage[worker] += total;
    for (size_t i = a->n_left; i < a->n; i++) {
        const size_t j = a->left[i];

        if (a->worker[j] != NONE)
            a->wage[a->worker[j]] += total - a->length[j];
        a->price[j] -= total - a->length[j];
    }
}

/* Gives each worker on the path to a free job the job after it. */
static void change_jobs(struct assignment *a, size_t worker, size_t job)
{
    for (size_t i = NONE; i != worker;) {
        const size_t before = a->job[i = a->from[job]];

        a->worker[job] = i;
        a->job[i] = job;
        job = before;
    }
}

static void add_worker(struct assignment *a, size_t worker)
{
    double length = 0.0;
    size_t job, at = worker;

    /* lists the jobs backwards, so that equal costs give worker i job i */
    for (size_t j = 0; j < a->n; j++) {
        a->left[j] = a->n - 1 - j;
        a->length[j] = (double)INFINITY;
    }
    a->n_left = a->n;
    do {
        job = extend(a, at, length);
        length = a->length[job];
        at = a->worker[job];
    } while (at != NONE);
    change_duals(a, worker, length);
    change_jobs(a, worker, job);
}

const size_t *assignment_solve(struct assignment *a, const double *cost)
{
    a->cost = cost;
    for (size_t i = 0; i < a->n; i++) {
        a->job[i] = a->worker[i] = NONE;
        a->wage[i] = a->price[i] = 0.0;
    }
    for (size_t i = 0; i < a->n; i++)
        add_worker(a, i);
    return a->job;
}
