/* fake_env.c - a scripted environment process (env_protocol.h), which misbehaves in the
 * way that its argument names: `fake_env [mode[-n]]`.
 *
 * Two agents: rover, with observations of width 2 and two heads of 3 and 2; scout, with
 * observations of width 3 and a box of width 1. A copy's state is one number, initialised
 * from the seed and changed by every action; all observations are derived from it. The
 * scout leaves in step 3; the episode is over in step 5 to 9: terminated if the seed is
 * odd, cut off if it is even.
 *
 * A mode applies to the n-th request of a process (1: configure). A file <mode>.runs in
 * the working folder counts the processes, so that some modes apply to the first one
 * only.
 */
#include "common/err/check.h"
#include "common/msg/env_protocol.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/msg/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AGENTS = 2, MAX_COPIES = 4096, MAX_WIDTH = 5 };

static const size_t obs_width[AGENTS] = {2, 3}, action_width[AGENTS] = {5, 1};

struct copy {
    uint64_t seed, state;
    unsigned time;
    int is_reset;
};

/* The arrays of a response: of agent a, for copy i of the request. */
struct answer {
    float obs[AGENTS][MAX_COPIES * MAX_WIDTH];
    double reward[AGENTS][MAX_COPIES];
    uint8_t terminated[AGENTS][MAX_COPIES], present[AGENTS][MAX_COPIES];
    uint8_t allowed[AGENTS][MAX_COPIES * MAX_WIDTH];
};

static struct {
    const char *mode;
    long n;
    long run;       /* 0: the first process of this mode */
    long n_request; /* 1: configure */
    size_t n_copies;
    struct copy copies[MAX_COPIES];
    struct answer answer;
    struct frame_reader reader;
    struct msg in;
    struct msg_out out;
} f;

static int is_mode(const char *mode)
{
    return strncmp(f.mode, mode, strlen(mode)) == 0 &&
           (f.mode[strlen(mode)] == '\0' || f.mode[strlen(mode)] == '-');
}

static int is_due(const char *mode)
{
    return is_mode(mode) && f.n_request == f.n;
}

static void write_all(const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(AGENT_FD_OUT, p, len);

        if (n < 0 && errno != EINTR)
            _exit(AGENT_EXIT_DONE);
        p += n > 0 ? n : 0;
        len -= (size_t)(n > 0 ? n : 0);
    }
}

static void send_out(void)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&f.out, &frame, &len);
    write_all(frame, len);
}

static _Noreturn void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

static void count_run(void)
{
    char path[128];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "%s.runs", f.mode);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && write(fd, "x", 1) == 1);
    (void)close(fd);
    f.run = (long)st.st_size;
}

/* forgets-n: the first process that gets so far dies of its n-th request, and those after it answer
 * the one before with a NaN. Whether there was none yet; notes: from now on there was one. */
static int is_first(int notes)
{
    const int fd = open("forgets.died", O_CLOEXEC | (notes ? O_CREAT | O_EXCL : 0), 0600);

    if (fd >= 0)
        (void)close(fd);
    return (fd >= 0) == notes;
}

static void say_hello(void)
{
    msg_begin_notification(&f.out, "hello");
    msg_map(&f.out, 1);
    msg_put_u64(&f.out, "protocol", is_mode("version") ? 99 : ENV_PROTOCOL_VERSION);
    send_out();
}

/* ---- the world ---- */

static uint64_t stir(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static unsigned last_step(const struct copy *c)
{
    return 5 + (unsigned)(c->seed >> 8) % 5;
}

static size_t choice(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void reset_copy(struct copy *c, uint64_t seed)
{
    *c = (struct copy){.seed = seed, .state = stir(seed + 1), .is_reset = 1};
    if (is_mode("random"))
        c->state += (uint64_t)getpid();
}

static void step_copy(struct copy *c, const float *rover, const float *scout)
{
    int64_t units = (int64_t)(scout[0] * 1000);

    CHECK(c->is_reset && c->time < last_step(c), "a copy whose episode is over");
    c->time++;
    c->state = stir(c->state + choice(rover, 3) * 2 + choice(rover + 3, 2));
    if (c->time <= 3)
        c->state = stir(c->state + (uint64_t)units);
    if (is_mode("drifts") && c->time == 2)
        c->state += (uint64_t)getpid();
}

static void look_at(const struct copy *c, size_t i)
{
    struct answer *a = &f.answer;
    const int over = c->time == last_step(c);

    for (size_t k = 0; k < AGENTS; k++) {
        for (size_t x = 0; x < obs_width[k]; x++)
            a->obs[k][i * obs_width[k] + x] =
                (float)(stir(c->state + k * 8 + x) >> 40) * 0x1p-24f;
        for (size_t x = 0; x < action_width[k]; x++)
            a->allowed[k][i * action_width[k] + x] =
                x == 0 || (stir(c->state + 99 + x) & 3) != 0;
        a->reward[k][i] = (double)(stir(c->state + 77 + k) >> 11) * 0x1p-53 - 0.5;
    }
    a->present[0][i] = !over;
    a->terminated[0][i] = over && (c->seed & 1) != 0;
    a->present[1][i] = c->time < 3;
    a->terminated[1][i] = c->time == 3;
}

/* ---- answers ---- */

static void put_array(const char *key, const void *array, size_t stride_bytes, size_t n,
                      size_t size, const size_t *width)
{
    size_t bytes = 0;

    for (size_t k = 0; k < AGENTS; k++)
        bytes += n * size * (width != NULL ? width[k] : 1);
    msg_key(&f.out, key);
    msg_bin_begin(&f.out, bytes - (is_due("short") ? size : 0));
    for (size_t k = 0; k < AGENTS; k++) {
        size_t own = n * size * (width != NULL ? width[k] : 1);

        msg_bin_body(&f.out, (const char *)array + k * stride_bytes,
                     own - (k + 1 == AGENTS && is_due("short") ? size : 0));
    }
}

/* The second one is of the same kind, and the third has no `where`. */
static void put_warnings(void)
{
    static const char *const where[] = {"step 1: \x1b[31m", "step 2"};

    msg_key(&f.out, "warnings");
    msg_array(&f.out, is_mode("warns_badly") ? 3 : 2);
    for (size_t i = 0; i < 2; i++) {
        msg_map(&f.out, 2);
        msg_put_str(&f.out, "what", "rover_0: it is\nslow");
        msg_put_str(&f.out, "where", where[i]);
    }
    if (is_mode("warns_badly")) {
        msg_map(&f.out, 1);
        msg_put_str(&f.out, "what", "scout_0: it is lost");
    }
}

static void answer(size_t n, int is_step)
{
    struct answer *a = &f.answer;
    const int warns = is_due("warns") || is_due("warns_badly");

    if (is_due("nan") || is_due("nan_nobody") ||
        (is_mode("forgets") && f.n_request == f.n - 1 && !is_first(0)))
        a->obs[1][(n - 1) * obs_width[1] + 2] = NAN;
    if (is_due("infinite"))
        a->reward[0][0] = (double)INFINITY;
    if (is_due("nobody") || is_due("nan_nobody"))
        memset(a->present, 0, sizeof(a->present));
    msg_begin_response(&f.out, f.in.id);
    msg_map(&f.out, (is_step ? 5 : 3) - (is_due("maskless") ? 1 : 0) + (warns ? 1 : 0));
    if (warns)
        put_warnings();
    put_array("obs", a->obs, sizeof(a->obs[0]), n, sizeof(float), obs_width);
    put_array("present", a->present, sizeof(a->present[0]), n, 1, NULL);
    if (is_step) {
        put_array("reward", a->reward, sizeof(a->reward[0]), n, sizeof(double), NULL);
        put_array("terminated", a->terminated, sizeof(a->terminated[0]), n, 1, NULL);
    }
    if (!is_due("maskless"))
        put_array("allowed", a->allowed, sizeof(a->allowed[0]), n, 1, action_width);
    send_out();
}

static void put_space(size_t agent)
{
    const int box = agent == 1;

    msg_map(&f.out, box ? 5 : 3);
    msg_put_str(&f.out, "kind", box ? "box" : "discrete");
    msg_put_u64(&f.out, "width", action_width[agent]);
    msg_key(&f.out, "heads");
    msg_array(&f.out, box ? 0 : 2);
    if (!box) {
        msg_u64(&f.out, 3);
        msg_u64(&f.out, is_mode("heads") ? 3 : 2);
        return;
    }
    msg_put_f64(&f.out, "low", -1);
    msg_put_f64(&f.out, "high", 1);
}

static void configure(void)
{
    static const char *const names[AGENTS] = {"rover_0", "scout_0"};
    uint64_t n = 0;

    CHECK(msg_get_u64(&f.in.body, "copies", MAX_COPIES, &n, NULL) == 0 && n > 0);
    f.n_copies = (size_t)n;
    msg_begin_response(&f.out, f.in.id);
    msg_map(&f.out, 3);
    msg_put_str(&f.out, "name", "fake");
    msg_put_bool(&f.out, "masks", 1);
    msg_key(&f.out, "agents");
    msg_array(&f.out, AGENTS);
    for (size_t k = 0; k < AGENTS; k++) {
        msg_map(&f.out, 3);
        msg_put_str(&f.out, "name", is_mode("names") ? "twin" : names[k]);
        msg_put_u64(&f.out, "obs",
                    is_mode("wide")                   ? 1u << 30
                    : is_mode("changes") && f.run > 0 ? obs_width[k] + 1
                                                      : obs_width[k]);
        msg_key(&f.out, "action");
        put_space(k);
    }
    send_out();
}

static void refuse(const char *why)
{
    struct err err;

    (void)err_set(&err, ERR_ARG, "%s", why);
    msg_error_response(&f.out, f.in.id, &err);
    send_out();
}

/* ---- requests ---- */

static size_t take_copies(uint32_t ret[MAX_COPIES])
{
    const void *copies = NULL;
    size_t len = 0, n;

    CHECK(msg_get_bin(&f.in.body, "copies", &copies, &len, NULL) == 0);
    n = len / sizeof(ret[0]);
    CHECK(n <= f.n_copies);
    memcpy(ret, copies, len);
    for (size_t i = 0; i < n; i++)
        CHECK(ret[i] < f.n_copies, "copy %u of %zu", ret[i], f.n_copies);
    return n;
}

static void reset(void)
{
    uint32_t copies[MAX_COPIES];
    const void *seed = NULL;
    size_t n = take_copies(copies), len = 0;

    CHECK(msg_get_bin(&f.in.body, "seed", &seed, &len, NULL) == 0 && len == n * 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t s;

        memcpy(&s, (const char *)seed + 8 * i, 8);
        reset_copy(&f.copies[copies[i]], s);
        look_at(&f.copies[copies[i]], i);
    }
    answer(n, 0);
}

static void step(void)
{
    uint32_t copies[MAX_COPIES];
    const void *actions = NULL;
    size_t n = take_copies(copies), len = 0;

    CHECK(msg_get_bin(&f.in.body, "actions", &actions, &len, NULL) == 0);
    CHECK(len == n * 6 * sizeof(float), "%zu bytes for %zu copies", len, n);
    for (size_t i = 0; i < n; i++) {
        float rover[5], scout;

        memcpy(rover, (const char *)actions + sizeof(rover) * i, sizeof(rover));
        memcpy(&scout, (const char *)actions + sizeof(rover) * n + sizeof(scout) * i,
               sizeof(scout));
        step_copy(&f.copies[copies[i]], rover, &scout);
        look_at(&f.copies[copies[i]], i);
    }
    answer(n, 1);
}

/* Carries out the mode when the n-th request arrives, before it is handled. */
static void misbehave(void)
{
    static const uint8_t garbage[] = {4, 0, 0, 0, 0xc1, 0xff, 0x00, 0x13};
    static const uint8_t giant[] = {0xff, 0xff, 0xff, 0xff, 0x93};
    static const uint8_t bomb[] = {5, 0, 0, 0, 0xdd, 0xff, 0, 0, 0};

    if ((is_due("kill") && f.run == 0) || (is_due("forgets") && is_first(1)) ||
        is_due("always") || (is_mode("kills") && f.n_request % f.n == 0 && f.run < 5)) {
        (void)fprintf(stderr, "last words\n");
        (void)raise(SIGKILL);
    }
    if (is_due("hangs"))
        wait_for_ever();
    if (is_due("stops") && f.run == 0)
        (void)raise(SIGSTOP);
    if (is_due("garbage"))
        write_all(garbage, sizeof(garbage));
    if (is_due("giant"))
        write_all(giant, sizeof(giant));
    if (is_due("bomb"))
        write_all(bomb, sizeof(bomb));
}

static void handle(void)
{
    f.n_request++;
    misbehave();
    if (strcmp(f.in.method, "shutdown") == 0)
        _exit(AGENT_EXIT_DONE);
    if (is_due("refuses"))
        refuse("the rover has no wheels");
    else if (strcmp(f.in.method, "configure") == 0)
        configure();
    else if (strcmp(f.in.method, "reset") == 0)
        reset();
    else if (strcmp(f.in.method, "step") == 0)
        step();
    else
        refuse("an unknown method");
}

static void serve(void)
{
    const uint8_t *data;
    uint8_t *room;
    size_t len, size;
    ssize_t n;

    for (;;) {
        while (frame_reader_next(&f.reader, &data, &len, NULL) > 0) {
            CHECK(msg_reparse(&f.in, data, len, NULL) == 0);
            handle();
        }
        CHECK(frame_reader_room(&f.reader, &room, &size, NULL) == 0);
        n = read(AGENT_FD_IN, room, size);
        if (n == 0)
            _exit(AGENT_EXIT_DONE);
        frame_reader_filled(&f.reader, n > 0 ? (size_t)n : 0);
    }
}

int main(int argc, char **argv)
{
    const char *dash;

    f.mode = argc > 1 ? argv[1] : "good";
    dash = strrchr(f.mode, '-');
    f.n = dash != NULL ? strtol(dash + 1, NULL, 10) : 0;
    count_run();
    msg_out_init(&f.out);
    frame_reader_init(&f.reader, FRAME_MAX_BYTES);
    say_hello();
    serve();
    return 0;
}
