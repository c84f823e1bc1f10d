/* bench_algorithms.c - for every algorithm that learns, the time of a whole update
 * against OpenBLAS's time for the update's own matrix products (yardstick.h).
 *
 * Each is a real run of its shipped configuration for simple_spread: driver, agent
 * processes, central and ps processes, log and messages are those of `brood run`. The
 * time of an update is the processor time of all these processes, the kernel's part
 * included, from the drawing of its rows to the last answer. The agents list their
 * products (listing_agent.c), which this process computes alone after every pair of
 * updates. Both times are minima, because other work on the machine can only add to them.
 *
 *     bench_algorithms [ALGORITHM...] [KEY=VALUE...]
 */
#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/rollout_internal.h"
#include "supervisor/run/training.h"
#include "tests/bench/cores.h"
#include "tests/bench/listing.h"
#include "tests/bench/yardstick.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    UPDATES = TIMED,
    PAIRS = (TIMED - LISTED_FROM - LISTED) / 2,
    MAX_SET = 8,
    MAX_CLOCKS = 16
};

static const char *const settings[] = {
    "checkpoint.every_env_steps=0", "evaluation.every_env_steps=0",
    "log.every_env_steps=1000000000", "env.reward=team_mean"};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static const struct algorithm {
    const char *name, *config; /* config: name of a file in configs/ */
} algorithms[] = {
    {"iql", "simple_spread_iql"},     {"vdn", "simple_spread_vdn"},
    {"qmix", "simple_spread_qmix"},   {"ia2c", "simple_spread_ia2c"},
    {"maa2c", "simple_spread_maa2c"}, {"ippo", "simple_spread_ippo"},
    {"mappo", "simple_spread_mappo"}, {"coma", "simple_spread_coma"},
    {"happo", "simple_spread_happo"}, {"maddpg", "simple_spread"},
    {"ddpg", "simple_spread"},        {"matd3", "simple_spread_matd3"},
    {"isac", "simple_spread_isac"},   {"masac", "simple_spread_masac"},
};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

static struct {
    char folder[64]; /* the run directory; also contains the lists of products */
    struct dense *products;
    size_t n_products;
    clockid_t clocks[MAX_CLOCKS];
    size_t n_clocks;
    size_t n_updates;
    double began_us;
    /* Of each pair of updates: the total time; its part in stages; the part of that in
     * runs of the graph. */
    double us[PAIRS], stage_us[PAIRS], run_us[PAIRS];
    double alone_us[PAIRS]; /* of the products alone */
} bench;

void __real_metrics_add_update(struct metrics *m, uint64_t duration_ns);
void __wrap_metrics_add_update(struct metrics *m, uint64_t duration_ns);
void __real_rollout_draw(struct rollout *r);
void __wrap_rollout_draw(struct rollout *r);

static size_t pair_of(size_t update)
{
    return (update - LISTED_FROM - LISTED) / 2;
}

/* ---- the lists that the agents write ---- */

static void read_products(FILE *f)
{
    struct dense d = {0};
    long long m, n, k, lda, ldb, ldc;

    while (fscanf(f, "%lld %lld %lld %lld %lld %lld %d %d", &m, &n, &k, &lda, &ldb, &ldc,
                  &d.transposed_a, &d.transposed_b) == 8) {
        d.m = m;
        d.n = n;
        d.k = k;
        d.lda = lda;
        d.ldb = ldb;
        d.ldc = ldc;
        bench.products = xreallocarray(bench.products, bench.n_products + 1, sizeof(d));
        bench.products[bench.n_products++] = d;
    }
}

static void read_times(FILE *f)
{
    char line[256];
    unsigned long long stage, run;
    int update;

    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "update %d %llu %llu", &update, &stage, &run) == 3 &&
            update >= LISTED_FROM + LISTED) {
            bench.stage_us[pair_of((size_t)update)] += (double)stage / 1e3;
            bench.run_us[pair_of((size_t)update)] += (double)run / 1e3;
        }
}

/* Reads the lists of all processes. */
static void read_lists(void (*read)(FILE *f))
{
    char path[512];
    DIR *dir = opendir(bench.folder);
    const struct dirent *e;

    CHECK(dir != NULL);
    while ((e = readdir(dir)) != NULL)
        if (strstr(e->d_name, ".products") != NULL) {
            FILE *f;

            (void)snprintf(path, sizeof(path), "%s/%s", bench.folder, e->d_name);
            f = fopen(path, "r");
            CHECK(f != NULL, "%s", path);
            read(f);
            (void)fclose(f);
        }
    (void)closedir(dir);
}

static void find_products(void)
{
    read_lists(read_products);
    CHECK(bench.n_products > 0, "no agent listed products");
    yardstick_prepare(bench.products, bench.n_products);
    yardstick_run(bench.products, bench.n_products);
}

/* ---- updates ---- */

/* Finds the processes' clocks: this one's, then the agents'. */
static void find_clocks(struct agent_table *agents)
{
    bench.clocks[bench.n_clocks++] = CLOCK_PROCESS_CPUTIME_ID;
    for (size_t i = 0; i < agent_table_count(agents); i++) {
        struct agent_info info;

        CHECK(bench.n_clocks < MAX_CLOCKS);
        agent_table_info(agents, i, &info);
        CHECK(clock_getcpuclockid(info.pid, &bench.clocks[bench.n_clocks++]) == 0);
    }
}

/* The processor time of all processes. */
static double spent_us(void)
{
    double ret = 0;

    for (size_t i = 0; i < bench.n_clocks; i++) {
        struct timespec t;

        CHECK(clock_gettime(bench.clocks[i], &t) == 0);
        ret += (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
    }
    return ret;
}

/* Wraps the driver's call at the beginning of each update ... */
void __wrap_rollout_draw(struct rollout *r)
{
    if (bench.n_clocks == 0)
        find_clocks(r->args.agents);
    bench.began_us = spent_us();
    __real_rollout_draw(r);
}

/* ... and its call at the end. */
void __wrap_metrics_add_update(struct metrics *m, uint64_t duration_ns)
{
    const double us = spent_us() - bench.began_us;
    const size_t update = bench.n_updates++;

    __real_metrics_add_update(m, duration_ns);
    if (update + 1 == LISTED_FROM + LISTED)
        find_products();
    if (update < LISTED_FROM + LISTED || update >= UPDATES)
        return;
    bench.us[pair_of(update)] += us;
    if (update % 2 == 1) {
        const double before = spent_us();

        yardstick_run(bench.products, bench.n_products);
        bench.alone_us[pair_of(update)] = spent_us() - before;
    }
}
_Static_assert((LISTED_FROM + LISTED) % 2 == 0 && LISTED == 2, "pairs begin evenly");

static void read_config(struct run_config *ret, const struct algorithm *a,
                        char *const *set, size_t n_set)
{
    const char *all[SETTINGS + 1 + MAX_SET];
    struct config_options options = {
        .set = all, .env_names = env_agent_names, .extends = 1};
    struct experience_config x;
    char path[512], name[64];
    struct err err = {0};

    CHECK(n_set <= MAX_SET);
    memcpy(all, settings, sizeof(settings));
    (void)snprintf(name, sizeof(name), "defaults.algorithm=%s", a->name);
    all[SETTINGS] = name;
    options.n_set = SETTINGS + 1;
    for (size_t i = 0; i < n_set; i++)
        all[options.n_set++] = set[i];
    (void)snprintf(path, sizeof(path), "%s/configs/%s.yaml", getenv("BROOD_SOURCE_DIR"),
                   a->config);
    CHECK(run_config_read(ret, path, &options, &err) == 0, "%s", err.msg);
    x = run_config_experience(ret, 0);
    ret->run.env_steps = x.warmup + (UPDATES + 1) * x.update_every;
    if (ret->run.env_steps < (UPDATES + 1) * (int64_t)ret->env.copies)
        ret->run.env_steps = (UPDATES + 1) * (int64_t)ret->env.copies;
}

static void train(const struct algorithm *a, char *const *set, size_t n_set)
{
    struct binaries binaries = {.build_id = "bench"};
    struct run_config config;
    struct training_args args = {.config = &config, .binaries = &binaries};
    struct training_result result;
    struct err err = {0};

    (void)snprintf(binaries.agent, sizeof(binaries.agent), "%s/tests/bench/listing_agent",
                   getenv("BROOD_BUILD_DIR"));
    read_config(&config, a, set, n_set);
    CHECK(run_dir_create(&args.dir, bench.folder, a->name, "bench", 0, 0700, &err) == 0,
          "%s", err.msg);
    CHECK(training_run(&args, &result, &err) == 0, "%s: %s", a->name, err.msg);
    run_dir_free(args.dir);
    run_config_done(&config);
}

static int least(const double us[PAIRS])
{
    int ret = 0;

    for (int i = 1; i < PAIRS; i++)
        ret = us[i] < us[ret] ? i : ret;
    return ret;
}

static void measure(const struct algorithm *a, char *const *set, size_t n_set)
{
    double us, alone;
    int pair;

    (void)strcpy(bench.folder, "/tmp/brood-bench-XXXXXX");
    CHECK(mkdtemp(bench.folder) != NULL);
    CHECK(setenv("BROOD_FAULT", bench.folder, 1) == 0);
    train(a, set, n_set);
    read_lists(read_times);
    CHECK(tree_remove(bench.folder, NULL) == 0);
    CHECK(bench.n_updates >= UPDATES, "%s: only %zu updates", a->name, bench.n_updates);
    pair = least(bench.us);
    us = bench.us[pair] / 2;
    alone = bench.alone_us[least(bench.alone_us)] / 2;
    (void)printf(
        "%-6s update %8.1f us (messages %6.1f, in stages beside the graph %6.1f), "
        "its %4.0f products alone %8.1f us (%6.1f Mflop), ratio %.2f\n",
        a->name, us, us - bench.stage_us[pair] / 2,
        (bench.stage_us[pair] - bench.run_us[pair]) / 2, (double)bench.n_products / 2,
        alone, yardstick_flop(bench.products, bench.n_products) / 2e6, us / alone);
}

/* ---- in a process of its own ---- */

static void measure_apart(const struct algorithm *a, char *const *set, size_t n_set)
{
    int status;
    pid_t pid;

    (void)fflush(stdout);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        measure(a, set, n_set);
        (void)fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s failed", a->name);
}

int main(int argc, char **argv)
{
    int n_names = 1;

    log_init("bench", LOG_LEVEL_ERROR, STDERR_FILENO);
    (void)cores_keep(1);
    while (n_names < argc && strchr(argv[n_names], '=') == NULL)
        n_names++;
    for (size_t i = 0; i < ALGORITHMS; i++) {
        int is_named = n_names == 1;

        for (int k = 1; k < n_names; k++)
            is_named |= strcmp(argv[k], algorithms[i].name) == 0;
        if (is_named)
            measure_apart(&algorithms[i], argv + n_names, (size_t)(argc - n_names));
    }
    return 0;
}
