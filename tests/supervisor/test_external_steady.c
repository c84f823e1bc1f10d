/* A steady round of an external environment allocates nothing in the supervisor: after
 * requests, answers and episodes of their length have occurred, the next ones use
 * existing memory. All allocations of this process count, including those of libuv and
 * msgpack-c. The environment is tests/support/fake_env.c. */
#include "common/err/check.h"
#include "supervisor/env/external_world.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <fcntl.h>
#include <string.h>

enum { AGENTS = 2, MAX_COPIES = 4096, WARM_UP = 60, ROUNDS = 300 };

/* Small messages, and messages larger than a pipe's buffer. */
static const struct {
    size_t copies, processes;
} sizes[] = {{12, 3}, {MAX_COPIES, 1}};

static size_t n_allocations;

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *p,
                                                                size_t size),
                                              void (*on_free)(const volatile void *p));

static void count_malloc(const volatile void *p, size_t size)
{
    n_allocations++;
}

static void count_free(const volatile void *p)
{
}

static void start_counting(void)
{
    ck_assert_int_ne(__sanitizer_install_malloc_and_free_hooks(count_malloc, count_free),
                     0);
}
#else
/* These replace the C library's functions in the whole program, and call its
 * implementation. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    n_allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    n_allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    n_allocations++;
    return __libc_realloc(p, size);
}

static void start_counting(void)
{
}
#endif

/* ---- the description of fake_env ---- */

static struct env_agent agents[AGENTS] = {
    {.name = "rover_0",
     .obs_width = 2,
     .space = {.n_heads = 2, .heads = {3, 2}, .width = 5}},
    {.name = "scout_0",
     .obs_width = 3,
     .space = {.kind = SPACE_BOX, .width = 1, .low = -1, .high = 1}},
};
static const struct env_spec spec = {
    .id = "fake", .n_agents = AGENTS, .agents = agents, .masks = 1};

/* ---- vec_env's arrays ---- */

static float obs[AGENTS][MAX_COPIES * 3], next_obs[AGENTS][MAX_COPIES * 3];
static uint8_t allowed[AGENTS][MAX_COPIES * 5], next_allowed[AGENTS][MAX_COPIES * 5];
static double reward[AGENTS][MAX_COPIES];
static uint8_t terminated[AGENTS][MAX_COPIES], present[AGENTS][MAX_COPIES];
static float actions[AGENTS][MAX_COPIES * 5];

static float *const obs_rows[AGENTS] = {obs[0], obs[1]};
static float *const next_obs_rows[AGENTS] = {next_obs[0], next_obs[1]};
static uint8_t *const allowed_rows[AGENTS] = {allowed[0], allowed[1]};
static uint8_t *const next_allowed_rows[AGENTS] = {next_allowed[0], next_allowed[1]};
static double *const reward_rows[AGENTS] = {reward[0], reward[1]};
static uint8_t *const terminated_rows[AGENTS] = {terminated[0], terminated[1]};
static uint8_t *const present_rows[AGENTS] = {present[0], present[1]};
static const float *const action_rows[AGENTS] = {actions[0], actions[1]};

static const struct external_views views = {.obs = obs_rows,
                                            .allowed = allowed_rows,
                                            .next_obs = next_obs_rows,
                                            .next_allowed = next_allowed_rows,
                                            .reward = reward_rows,
                                            .terminated = terminated_rows,
                                            .present = present_rows};

/* ---- the rig: rounds do without Check's macros, which allocate ---- */

static struct {
    uv_loop_t loop;
    int stepped, settled, stopped;
    size_t n_copies, n_episodes;
} rig;

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition))                                                             \
            (void)uv_run(&rig.loop, UV_RUN_ONCE);                                        \
    } while (0)

static void on_stepped(void *ctx)
{
    rig.stepped = 1;
}

static void on_env_ready(void *ctx)
{
    rig.settled = 1;
}

static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
}

static void on_inexact(void *ctx, const char *line)
{
    ck_abort_msg("%s", line);
}

static void on_failed(void *ctx, const struct err *why)
{
    ck_abort_msg("%s", why->msg);
}

static void on_stopped(void *ctx)
{
    rig.stopped = 1;
}

static struct env_host *make_host(void)
{
    char exe[512];
    int fd;

    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return env_host_new(&(struct env_host_args){.loop = &rig.loop,
                                                .agent_exe_fd = fd,
                                                .on_event = on_event,
                                                .on_inexact = on_inexact,
                                                .on_failed = on_failed,
                                                .on_stopped = on_stopped});
}

static void settle(struct external_world *w)
{
    struct err err;
    int r;

    rig.settled = 0;
    r = external_world_make_ready(w, &err);
    CHECK(r >= 0, "%s", err.msg);
    RUN_UNTIL(r == 0 || rig.settled);
}

/* Begins a new episode in the copies whose episode is over. */
static void begin_episodes(struct external_world *w)
{
    for (size_t c = 0; c < rig.n_copies; c++)
        if (!present[0][c] && !present[1][c])
            external_world_reset(w, c, 0x9e3779b97f4a7c15u * ++rig.n_episodes);
    settle(w);
}

static void play_round(struct external_world *w, size_t round)
{
    static const uint8_t idle[MAX_COPIES];
    struct err err;

    memset(actions[0], 0, sizeof(actions[0]));
    for (size_t c = 0; c < rig.n_copies; c++) {
        actions[0][c * 5 + (c + round) % 3] = actions[0][c * 5 + 3 + round % 2] = 1;
        actions[1][c] = (float)(c + round % 8) / 16;
    }
    rig.stepped = 0;
    CHECK(external_world_step(w, action_rows, idle, &err) == ENV_LATER);
    RUN_UNTIL(rig.stepped);
    begin_episodes(w);
}

START_TEST(steady_rounds_allocate_nothing)
{
    static char program[512];
    static const char *const command[] = {program, "good", NULL};
    const struct external_listener listener = {on_stepped, on_env_ready, NULL, NULL};
    struct external external = {.command = command, .processes = sizes[_i].processes};
    struct temp_dir dir;
    struct env_host *host;
    struct external_world *w;
    struct err err;
    size_t before, after, n_episodes;

    rig.n_copies = sizes[_i].copies;
    start_counting();
    temp_dir_init(&dir);
    external.directory = dir.path;
    (void)snprintf(program, sizeof(program), "%s/tests/supervisor/fake_env",
                   getenv("BROOD_BUILD_DIR"));
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    host = make_host();
    w = external_world_new(&external, &spec, rig.n_copies, &views, &listener);
    ck_assert_msg(external_world_start(w, host, "env", &err) == 0, "%s", err.msg);
    begin_episodes(w);
    for (size_t i = 0; i < WARM_UP; i++)
        play_round(w, i);
    ck_assert_uint_gt(n_allocations, 0);
    n_episodes = rig.n_episodes;
    before = n_allocations;
    for (size_t i = 0; i < ROUNDS; i++)
        play_round(w, i);
    after = n_allocations;
    ck_assert_uint_eq(after, before);
    ck_assert_uint_gt(rig.n_episodes, n_episodes + ROUNDS);
    env_host_stop(host, 5000);
    RUN_UNTIL(rig.stopped);
    (void)close(env_host_args(host)->agent_exe_fd);
    external_world_free(w);
    env_host_free(host);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
    temp_dir_done(&dir);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("external_steady");
    TCase *tc = tcase_create("external_steady");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, steady_rounds_allocate_nothing, 0,
                        sizeof(sizes) / sizeof(sizes[0]));
    suite_add_tcase(s, tc);
    return s;
}

FORKING_TEST_MAIN(make_suite)
