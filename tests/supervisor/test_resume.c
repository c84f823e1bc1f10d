/* Finding the checkpoint to resume from, whatever happened to the files. */
#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"
#include "supervisor/begin/resume_config.h"
#include "supervisor/save/resume.h"
#include "supervisor/save/run_saver.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK_FLOATS = 12 };

static struct temp_dir dir;
static char checkpoints[128], metrics[128];
static struct msg description;
static uint8_t *description_bytes;
static float block[BLOCK_FLOATS];
static const void *saved = block; /* by commit */
static size_t saved_bytes = sizeof(block);
/* A MetaGraphDef with one unknown field of five bytes. */
static const char graph[8] = {"\xfa\x01\5graph"};
static int n_skipped;
/* How often rows.csv was synced, and how often when there was no checkpoint of step 20. */
static int n_syncs, n_early_syncs;
static uint64_t not_ready; /* from that step on; 0: no step */

static const char *fails_to_sync = ""; /* the end of a path; "": every sync succeeds */

static int fail_sync(int fd)
{
    char link[64], path[256];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    if (*fails_to_sync == '\0' || strstr(path, fails_to_sync) == NULL)
        return 0;
    errno = EIO;
    return 1;
}

/* Replace those of the C library; also called on a thread of the pool. */
int fdatasync(int fd)
{
    return fail_sync(fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

/* Somebody removes a file of that name just before it is opened. */
int openat(int at, const char *name, int flags, ...)
{
    mode_t mode;
    va_list ap;

    va_start(ap, flags);
    mode = va_arg(ap, mode_t);
    va_end(ap);
    if (strcmp(name, "vanishing.csv") == 0)
        (void)unlinkat(at, name, 0);
    return (int)syscall(SYS_openat, at, name, flags, mode);
}

int fsync(int fd)
{
    char link[64], path[256], checkpoint[160];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    (void)snprintf(checkpoint, sizeof(checkpoint), "%s/20", checkpoints);
    if (strstr(path, "/rows.csv") != NULL) {
        n_syncs++;
        n_early_syncs += access(checkpoint, F_OK) < 0;
    }
    return fail_sync(fd) ? -1 : (int)syscall(SYS_fsync, fd);
}
static const char *config = "run:\n";       /* configuration of the saved run */
static const char *numerics = "portable 3"; /* "": a checkpoint of an older build */

/* (n), or (rows, n) if there are more than one */
static void pack_variable(struct msg_out *o, const char *name, uint64_t rows, uint64_t n,
                          uint64_t offset, const char *collection)
{
    msg_array(o, 5);
    msg_str(o, name);
    msg_u64(o, DT_FLOAT);
    msg_array(o, rows > 1 ? 2 : 1);
    if (rows > 1)
        msg_u64(o, rows);
    msg_u64(o, n);
    msg_u64(o, offset);
    msg_str(o, collection);
}

static void begin_description(struct msg_out *o, uint32_t n)
{
    msg_out_init(o);
    msg_begin_response(o, 1);
    msg_map(o, 1);
    msg_key(o, "variables");
    msg_array(o, n);
}

static void end_description(struct msg_out *o)
{
    const uint8_t *frame;
    size_t len;

    msg_end(o, &frame, &len);
    len -= FRAME_HEADER_BYTES;
    description_bytes = xmalloc(len);
    memcpy(description_bytes, frame + FRAME_HEADER_BYTES, len);
    ck_assert_int_eq(msg_parse(&description, description_bytes, len, NULL), 0);
    msg_out_done(o);
}

/* saved 4 floats, a gap, saved 2, local 1, the rest */
static void describe(void)
{
    struct msg_out o;

    begin_description(&o, 3);
    pack_variable(&o, "w", 1, 4, 0, "variables");
    pack_variable(&o, "a", 1, 2, 24, "variables");
    pack_variable(&o, "rate", 1, 1, 32, "hyperparameters");
    end_description(&o);
}

static void setup(void)
{
    temp_dir_init(&dir);
    describe();
    for (int i = 0; i < BLOCK_FLOATS; i++)
        block[i] = (float)i + 0.5f;
    (void)snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    ck_assert_int_eq(tree_make(checkpoints, NULL), 0);
    (void)snprintf(metrics, sizeof(metrics), "%s/metrics", dir.path);
    ck_assert_int_eq(tree_make(metrics, NULL), 0);
    n_skipped = 0;
    fails_to_sync = "";
    not_ready = 0;
    saved = block;
    saved_bytes = sizeof(block);
}

static void teardown(void)
{
    msg_done(&description);
    free(description_bytes);
    temp_dir_done(&dir);
}

struct sections {
    struct checkpoint_section section[6];
    struct wbuf rollout;
};

static void make_sections(struct sections *s, uint64_t step)
{
    *s = (struct sections){.section = {{SECTION_ROLLOUT, NULL, 0},
                                       {SECTION_EXPERIENCE, "rows", 4},
                                       {SECTION_BUILD_ID, "abc", 3},
                                       {SECTION_FINGERPRINT, "0123", 4},
                                       {SECTION_CONFIG, config, strlen(config)},
                                       {SECTION_NUMERICS, numerics, strlen(numerics)}}};
    wbuf_u32(&s->rollout, 3);
    wbuf_u64(&s->rollout, step / 4);
    wbuf_u64(&s->rollout, step);
    wbuf_u64(&s->rollout, 3);
    wbuf_u64(&s->rollout, 2);
    wbuf_u64(&s->rollout, 0); /* no work of the boundary is left */
    wbuf_bytes(&s->rollout, "\0\0\0", 3);
    s->section[0].data = s->rollout.data;
    s->section[0].len = s->rollout.len;
}

static int commit_keeping(uint64_t step, struct retention keep, struct err *err)
{
    const struct checkpoint_agent agent = {
        "agent_0", &description.body, saved, saved_bytes, graph, sizeof(graph)};
    struct sections s;
    struct checkpoint_args args = {.dir = checkpoints,
                                   .step = step,
                                   .agents = &agent,
                                   .n_agents = 1,
                                   .n_sections = *numerics != '\0' ? 6 : 5};
    int rc;

    make_sections(&s, step);
    args.sections = s.section;
    rc = checkpoint_write(&args, err);
    wbuf_done(&s.rollout);
    return rc < 0 ? rc : retention_drop_old(&keep, checkpoints, err);
}

static void commit(uint64_t step)
{
    struct err err = {0};

    ck_assert_msg(commit_keeping(step, (struct retention){.max = 3}, &err) == 0, "%s",
                  err.msg);
}

static void on_skipped(void *ctx, const char *line)
{
    ck_assert_ptr_null(strchr(line, '\n'));
    ck_assert_ptr_nonnull(strstr(line, "checkpoint "));
    n_skipped++;
}

/* The step from which a run would resume; 0: no checkpoint is complete. */
static uint64_t newest(void)
{
    struct resume *r;
    struct err err = {0};
    uint64_t step;
    int rc = resume_open(&r, checkpoints, NULL, on_skipped, NULL, &err);

    if (rc < 0) {
        ck_assert_int_eq(rc, ERR_NOT_FOUND);
        ck_assert_ptr_nonnull(strstr(err.msg, "no complete checkpoint"));
        return 0;
    }
    step = resume_progress(r)->env_steps;
    resume_free(r);
    return step;
}

static void check_block(uint64_t step, const void *want)
{
    struct checkpoint_state state;
    struct checkpoint_block b;
    struct err err = {0};

    ck_assert_int_eq(checkpoint_state_read(&state, checkpoints, step, &err), 0);
    ck_assert_msg(checkpoint_block_load(
                      &b, checkpoints, step,
                      checkpoint_state_find(&state, SECTION_AGENT "agent_0"), &err) == 0,
                  "%s", err.msg);
    ck_assert_uint_eq(b.section.block_bytes, sizeof(block));
    ck_assert_mem_eq(b.bytes, want, sizeof(block));
    checkpoint_block_done(&b);
    checkpoint_state_done(&state);
}

/* ---- tests ---- */

/* A checkpoint of build abc, and the reaction of a build to it. */
static const struct {
    const char *numerics, *build, *says; /* says NULL: the run resumes */
    const char *plugin;                  /* of the environment */
} numerics_cases[] = {
    {"portable 3", "abc", NULL},
    {"portable 3", "def", NULL, "p.so"},
    {"native 3", "abc", NULL},
    {"native 3", "def", "the build was abc, now it is def (--anyway continues)"},
    {"portable 1", "def", NULL},
    {"portable 2", "def", NULL, "p.so"},
    {"portable 1", "abc", "the numerics version was 1, now it is 3 (--anyway continues)",
     "p.so"},
    {"native 1", "def", "the build was abc, now it is def (--anyway continues)"},
    {"portable 4", "abc", "the numerics version was 4, now it is 3 (--anyway continues)"},
    {"native 4", "abc", "the numerics version was 4, now it is 3 (--anyway continues)"},
    {"portable -1", "abc",
     "the numerics version was -1, now it is 3 (--anyway continues)"},
    {"portable", "abc", "the numerics version was 0, now it is 3 (--anyway continues)"},
    {"exact 3", "abc", "the numerics version was 0, now it is 3 (--anyway continues)"},
    {"", "abc",
     "the checkpoint is of a build from before numerics versions, this one is numerics 3 "
     "(--anyway continues)"},
};

START_TEST(test_numerics_decide)
{
    const struct run_config config = {
        .env = {.id = "simple_spread", .plugin = numerics_cases[_i].plugin}};
    struct resume *r;
    struct err err = {0};
    int rc;

    numerics = numerics_cases[_i].numerics;
    commit(20);
    ck_assert_msg(resume_open(&r, checkpoints, NULL, on_skipped, NULL, &err) == 0, "%s",
                  err.msg);
    rc = resume_check_numerics(r, &config, numerics_cases[_i].build, &err);
    ck_assert_int_eq(rc, numerics_cases[_i].says != NULL ? ERR_CONFIG : 0);
    if (rc < 0)
        ck_assert_str_eq(err.msg, numerics_cases[_i].says);
    ck_assert_int_eq(resume_is_same_build(r, numerics_cases[_i].build),
                     strcmp(numerics_cases[_i].build, "abc") == 0);
    resume_free(r);
}
END_TEST

/* A checkpoint of a run with this agent, whose widest variable has four elements, and whether
 * another version has its bytes. */
static const struct {
    const char *numerics;
    int same;
    struct agent_config agent;
    int64_t max_steps;
    const char *observation; /* the setting of frozen policies from elsewhere */
} reach_cases[] = {
    {"portable 1", 1, {.algorithm = "maddpg"}},
    {"portable 1", 1, {.algorithm = "frozen"}},
    {"portable 2", 1, {.algorithm = "frozen"}},
    {"portable 3", 1, {.algorithm = "graph"}},
    {"portable 2", 0, {.algorithm = "graph"}},
    {"portable 1", 0, {.algorithm = "graph"}},
    /* a graph that others built */
    {"portable 3", 1, {.algorithm = "frozen"}, .observation = "x:0"},
    {"portable 2", 0, {.algorithm = "frozen"}, .observation = "x:0"},
    /* rows of an update times the widest layer's outputs */
    {"portable 2", 1, {.algorithm = "maddpg", .experience.batch_size = 65536}},
    {"portable 2", 0, {.algorithm = "maddpg", .experience.batch_size = 65537}},
    {"portable 3", 1, {.algorithm = "maddpg", .experience.batch_size = 65537}},
    {"portable 1", 0, {.algorithm = "maddpg", .experience.batch_size = 65537}},
    /* rows of an update */
    {"portable 2", 1, {.algorithm = "mappo", .experience.update_every = 262144}},
    {"portable 2", 0, {.algorithm = "mappo", .experience.update_every = 262145}},
    /* rows of the longest episode times episodes */
    {"portable 2", 1, {.algorithm = "qmix", .experience.batch_size = 2621}, 100},
    {"portable 2", 0, {.algorithm = "qmix", .experience.batch_size = 2622}, 100},
    {"portable 2", 1, {.algorithm = "qmix", .experience.batch_size = 32}},
    {"portable 2", 0, {.algorithm = "qmix", .experience.batch_size = 33}},
    /* rows that a message can have */
    {"portable 2", 1, {.algorithm = "critic", .observation = 60, .action = 4}},
    {"portable 2", 0, {.algorithm = "critic", .observation = 60, .action = 3}},
};

static int is_same(const char *version, const struct run_config *config)
{
    struct resume *r;
    struct err err = {0};
    int rc;

    numerics = version;
    commit(20);
    ck_assert_msg(resume_open(&r, checkpoints, NULL, on_skipped, NULL, &err) == 0, "%s",
                  err.msg);
    rc = resume_check_numerics(r, config, "abc", &err);
    resume_free(r);
    ck_assert(rc == 0 || rc == ERR_CONFIG);
    ck_assert(rc == 0 || strstr(err.msg, "now it is 3 (--anyway") != NULL);
    return rc == 0;
}

START_TEST(test_numerics_reach)
{
    struct agent_config agent = reach_cases[_i].agent;
    const struct run_config config = {
        .agents = &agent, .n_agents = 1, .env.max_steps = reach_cases[_i].max_steps};
    struct arena arena = ARENA_ZERO;
    struct schema_place at;

    agent_section_take(&agent, &arena);
    if (reach_cases[_i].observation != NULL) {
        ck_assert_int_eq(
            schema_locate(&agent_schema, "settings.observation", &agent, &at), 0);
        schema_put_text(at.field, reach_cases[_i].observation, at.value, &arena);
    }
    ck_assert_int_eq(is_same(reach_cases[_i].numerics, &config), reach_cases[_i].same);
    arena_done(&arena);
}
END_TEST

/* The elements of a variable, and whether another version has the bytes of a run with it. */
static const struct {
    uint64_t rows, width;
    int same;
} variable_cases[] = {
    {32, 8192, 1}, /* 2^18 elements, and outputs that are one chain */
    {33, 8192, 0}, /* its gradient has a norm */
    {1, 8193, 0},  /* it may be the bias before a softmax */
};

START_TEST(test_numerics_reach_variables)
{
    const struct run_config config = {0};

    static float zeros[33 * 8192];
    struct msg_out o;

    msg_done(&description);
    free(description_bytes);
    begin_description(&o, 1);
    pack_variable(&o, "w", variable_cases[_i].rows, variable_cases[_i].width, 0,
                  "variables");
    end_description(&o);
    saved = zeros;
    saved_bytes = sizeof(zeros);
    ck_assert_int_eq(is_same("portable 3", &config), 1);
    ck_assert_int_eq(is_same("portable 2", &config), variable_cases[_i].same);
}
END_TEST

START_TEST(test_blocks_come_back_whole)
{
    commit(20);
    check_block(20, block);
}
END_TEST

START_TEST(test_newest_complete_one)
{
    char path[256];

    ck_assert_uint_eq(newest(), 0);
    commit(20);
    commit(100);
    ck_assert_uint_eq(newest(), 100);
    (void)snprintf(path, sizeof(path), "%s/100/agent_0/model.ckpt-100.index",
                   checkpoints);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_uint_eq(newest(), 20);
    ck_assert_int_eq(n_skipped, 1);
    ck_assert_int_eq(retention_drop_after(checkpoints, 20, NULL), 0);
    ck_assert_uint_eq(newest(), 20);
    ck_assert_int_eq(n_skipped, 1);
}
END_TEST

/* Every byte of every file of the newest checkpoint is flipped in turn, and every length
 * cut off: either this checkpoint gives the exact values, or the older one is used. */
START_TEST(test_every_byte_flipped)
{
    static const char *const files[] = {
        "run.state", "agent_0/model.ckpt-60.meta", "agent_0/checkpoint",
        "agent_0/model.ckpt-60.index", "agent_0/model.ckpt-60.data-00000-of-00001"};
    char path[256], *data;
    size_t len, served = 0;

    commit(20);
    commit(60);
    (void)snprintf(path, sizeof(path), "%s/60/%s", checkpoints, files[_i]);
    data = temp_dir_read(path, &len);
    for (size_t i = 0; i < 2 * len; i++) {
        uint64_t step;

        if (i < len)
            data[i] = (char)(data[i] ^ 0x20);
        temp_dir_write(path, data, i < len ? len : i - len);
        if (i < len)
            data[i] = (char)(data[i] ^ 0x20);
        step = newest();
        ck_assert(step == 60 || step == 20);
        if (step == 60)
            check_block(60, block);
        served += step == 60;
    }
    if (_i < 2)
        ck_assert_uint_eq(served, 0);
    free(data);
}
END_TEST

START_TEST(test_none_is_left)
{
    char path[256];

    commit(20);
    (void)snprintf(path, sizeof(path), "%s/20/run.state", checkpoints);
    temp_dir_write(path, "brodrun1", 8);
    ck_assert_uint_eq(newest(), 0);
    ck_assert_int_eq(n_skipped, 1);
}
END_TEST

/* As in TensorFlow's Saver: checkpoints older than the newest two are removed, except one
 * for each hour, which is kept for good. */
START_TEST(test_some_are_kept_for_good)
{
    const struct retention keep = {.max = 2, .every_s = 3600, .began_unix = 1e6};
    /* seconds after the beginning at which each checkpoint was written */
    static const double at[] = {0, 1000, 3700, 3800, 7100, 7300, 7400, 7500};
    static const uint64_t want[] = {30, 60, 70, 80};
    uint64_t *steps;
    size_t n;

    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        struct timespec t[2] = {{.tv_sec = (time_t)(keep.began_unix + at[i])}};
        char path[256];

        t[1] = t[0];
        ck_assert_int_eq(commit_keeping(10 * (i + 1), keep, NULL), 0);
        (void)snprintf(path, sizeof(path), "%s/%zu/run.state", checkpoints, 10 * (i + 1));
        ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
    }
    ck_assert_int_eq(checkpoint_list(checkpoints, &steps, &n, NULL), 0);
    ck_assert_uint_eq(n, 4);
    ck_assert_mem_eq(steps, want, sizeof(want));
    free(steps);
}
END_TEST

/* ---- in the background ---- */

struct background {
    uv_loop_t loop;
    struct store *store;
    struct run_saver *saver;
    int n_written, n_failed;
    struct err why; /* of the newest failure */
};

static int is_ready(void *ctx, uint64_t step)
{
    (void)ctx;
    return not_ready == 0 || step < not_ready;
}

static void on_written(void *ctx, uint64_t step, const struct err *why)
{
    struct background *b = ctx;

    (void)step;
    if (why == NULL)
        b->n_written++;
    else
        b->n_failed++, b->why = *why;
}

static void on_log_checked(void *ctx, const struct err *why)
{
    (void)ctx;
    ck_assert_ptr_null(why);
}

static void background_init(struct background *b)
{
    static struct env_agent agent = {
        .name = "a", .team = "a", .obs_width = 1, .space = {.width = 1}};
    const struct env_spec spec = {.id = "x", .n_agents = 1, .agents = &agent};
    const struct run_saver_args args = {.loop = &b->loop,
                                        .dir = checkpoints,
                                        .sides = {metrics},
                                        .is_ready = is_ready,
                                        .keep = {.max = 2},
                                        .on_written = on_written,
                                        .on_log_checked = on_log_checked,
                                        .ctx = b};
    struct run_saver_args with_store = args;
    struct store_layout layout;

    *b = (struct background){0};
    ck_assert_int_eq(uv_loop_init(&b->loop), 0);
    ck_assert_int_eq(store_create(&b->store, temp_dir_file(&dir, "experience"), 10, NULL),
                     0);
    ck_assert_int_eq(store_layout_make(&layout, &spec, NULL, 0, NULL), 0);
    ck_assert_int_eq(store_describe(b->store, &layout, NULL), 0);
    with_store.store = b->store;
    b->saver = run_saver_new(&with_store);
}

static void begin(struct background *b, uint64_t step)
{
    const struct checkpoint_agent agent = {
        "agent_0", &description.body, block, sizeof(block), graph, sizeof(graph)};
    struct sections s;

    make_sections(&s, step);
    const struct save_point point = {.step = step,
                                     .agents = &agent,
                                     .n_agents = 1,
                                     .rollout = s.rollout.data,
                                     .rollout_bytes = s.rollout.len,
                                     .build_id = "abc",
                                     .fingerprint = "0123",
                                     .config_yaml = config};
    ck_assert_int_eq(run_saver_begin(b->saver, &point, NULL), 0);
    wbuf_done(&s.rollout);
}

static void background_done(struct background *b)
{
    run_saver_free(b->saver);
    store_free(b->store);
    ck_assert_int_eq(uv_loop_close(&b->loop), 0);
}

/* The checkpoint has the values of the block at the time when the save began. */
START_TEST(test_the_copy_is_pinned)
{
    float then[BLOCK_FLOATS];
    struct background b;

    background_init(&b);
    memcpy(then, block, sizeof(then));
    begin(&b, 20);
    ck_assert(run_saver_is_busy(b.saver));
    for (int i = 0; i < BLOCK_FLOATS; i++)
        block[i] = -1;
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(!run_saver_is_busy(b.saver));
    ck_assert_int_eq(b.n_written, 1);
    check_block(20, then);
    background_done(&b);
}
END_TEST

/* A machine that fails keeps the rows that a resume from the checkpoint does not write. */
START_TEST(test_rows_are_synced_before_the_checkpoint)
{
    char rows[160];
    struct background b;

    (void)snprintf(rows, sizeof(rows), "%s/rows.csv", metrics);
    (void)close(open(rows, O_WRONLY | O_CREAT, 0600));
    n_syncs = n_early_syncs = 0;
    background_init(&b);
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_written, 1);
    ck_assert(n_syncs == 1 && n_early_syncs == 1);
    background_done(&b);
}
END_TEST

/* Pictures are renamed and removed while an older checkpoint is written. */
START_TEST(test_a_file_that_goes_meanwhile_needs_no_sync)
{
    char rows[160];
    struct background b;

    (void)snprintf(rows, sizeof(rows), "%s/vanishing.csv", metrics);
    (void)close(open(rows, O_WRONLY | O_CREAT, 0600));
    background_init(&b);
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_msg(b.n_written == 1, "%s", b.why.msg);
    ck_assert_int_lt(access(rows, F_OK), 0);
    background_done(&b);
}
END_TEST

/* What the run writes beside is there before the checkpoint that promises it. */
START_TEST(test_a_checkpoint_waits_for_what_it_promises)
{
    struct background b;

    background_init(&b);
    not_ready = 40;
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_written, 1);
    begin(&b, 40);
    run_saver_check_log(b.saver); /* when that checkpoint is written */
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(run_saver_is_busy(b.saver) && b.n_written == 1 && newest() == 20);
    run_saver_ready(b.saver);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(run_saver_is_busy(b.saver) && newest() == 20);
    not_ready = 0;
    run_saver_ready(b.saver);
    run_saver_ready(b.saver);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(!run_saver_is_busy(b.saver) && b.n_written == 2 && newest() == 40);
    background_done(&b);
}
END_TEST

/* The kernel says once that it could not write, and may then have dropped it. */
START_TEST(test_no_checkpoint_after_a_failed_sync)
{
    static const char *const of[] = {"/experience", "/rows.csv"};
    char rows[160];
    struct background b;

    (void)snprintf(rows, sizeof(rows), "%s/rows.csv", metrics);
    (void)close(open(rows, O_WRONLY | O_CREAT, 0600));
    background_init(&b);
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    fails_to_sync = of[_i];
    begin(&b, 40);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    fails_to_sync = "";
    ck_assert_int_eq(b.n_failed, 1);
    ck_assert_int_eq(b.why.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(b.why.msg, strerror(EIO)));
    begin(&b, 60);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(b.n_failed == 2 && b.why.code == ERR_CORRUPT && b.n_written == 1);
    ck_assert_uint_eq(newest(), 20);
    background_done(&b);
}
END_TEST

/* A failed sync of the checkpoint's own files is that checkpoint's. */
START_TEST(test_another_checkpoint_after_a_failed_sync_of_its_own)
{
    struct background b;

    background_init(&b);
    fails_to_sync = "/run.state";
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    fails_to_sync = "";
    ck_assert(b.n_failed == 1 && b.why.code != ERR_CORRUPT && newest() == 0);
    begin(&b, 40);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(b.n_written == 1 && newest() == 40);
    background_done(&b);
}
END_TEST

/* A save that fails leaves the older checkpoints; the next one is tried again. */
START_TEST(test_a_failure_is_no_end)
{
    struct background b;
    char aside[160];

    (void)snprintf(aside, sizeof(aside), "%s.aside", checkpoints);
    background_init(&b);
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(rename(checkpoints, aside), 0);
    temp_dir_write(checkpoints, "", 0);
    begin(&b, 40);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_failed, 1);
    ck_assert_int_eq(unlink(checkpoints), 0);
    ck_assert_int_eq(rename(aside, checkpoints), 0);
    ck_assert_uint_eq(newest(), 20);
    begin(&b, 60);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_written, 2);
    ck_assert_uint_eq(newest(), 60);
    background_done(&b);
}
END_TEST

/* A copy that failed halfway contains blocks of two steps, so it is not written again. */
START_TEST(test_a_failed_copy_is_not_repeated)
{
    const struct checkpoint_agent too_large = {
        "agent_0", &description.body, block, SIZE_MAX / 4, graph, sizeof(graph)};
    const struct save_point point = {.step = 40, .agents = &too_large, .n_agents = 1};
    struct background b;

    background_init(&b);
    ck_assert(!run_saver_repeat(b.saver)); /* nothing has been written yet */
    begin(&b, 20);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert(run_saver_repeat(b.saver));
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_written, 2);
    ck_assert_int_eq(run_saver_begin(b.saver, &point, NULL), ERR_NOMEM);
    ck_assert(!run_saver_is_busy(b.saver));
    ck_assert(!run_saver_repeat(b.saver));
    begin(&b, 60);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.n_written, 3);
    ck_assert_uint_eq(newest(), 60);
    background_done(&b);
}
END_TEST

/* With too few descriptors nothing is known of a checkpoint or the log: an older one is not
 * taken in its place, and no rows are missed. */
START_TEST(test_what_cannot_be_read_is_not_damaged)
{
    const char *log = temp_dir_file(&dir, "experience");
    const int first_free = dup(STDIN_FILENO);
    struct rlimit all, few;
    struct background b;
    struct err err;
    uint64_t step;
    int rc = 0, n_failed = 0;

    background_init(&b);
    for (step = 20; step <= 60; step += 40) {
        begin(&b, step);
        (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    }
    background_done(&b);
    (void)close(first_free);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
    for (int more = 0; more < 4; more++) {
        struct resume *r = NULL;

        few = all;
        few.rlim_cur = (rlim_t)(first_free + more);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        rc = resume_find_covered(&step, checkpoints, log, 10, &err);
        ck_assert_msg(rc == 0 || (rc == -EMFILE && strstr(err.msg, strerror(EMFILE))),
                      "%d: %s", rc, err.msg);
        n_failed += rc < 0;
        ck_assert(rc < 0 || step == 60);
        rc = resume_open(&r, checkpoints, NULL, on_skipped, NULL, &err);
        ck_assert_msg(rc == 0 || (rc == -EMFILE && strstr(err.msg, strerror(EMFILE))),
                      "%d: %s", rc, err.msg);
        resume_free(r);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
    }
    ck_assert_int_eq(n_skipped, 0);
    ck_assert(rc == 0 && n_failed > 1);
}
END_TEST

/* ---- the configuration to resume with ---- */

static const char saved_config[] = "env: {id: none}\n"
                                   "agents: {a: {observation: 1, action: 1}}\n"
                                   "experience: {warmup: 25}\n";

static struct run_config wanted_with(const char *const *set, size_t n)
{
    const struct config_options options = {.set = set, .n_set = n};
    struct run_config c;
    struct err err = {0};

    ck_assert_msg(run_config_parse(&c, saved_config, strlen(saved_config), "f", &options,
                                   &err) == 0,
                  "%s", err.msg);
    return c;
}

/* Checks the configuration `set` against the checkpoint of step 20 and this journal. */
static int check_config(const char *const *set, size_t n, const char *journal,
                        struct resume_config *ret, struct err *err)
{
    struct run_config wanted = wanted_with(set, n);
    const char *path = temp_dir_file(&dir, "journal");
    struct run_config saved;
    struct resume *r;
    int rc;

    config = saved_config;
    commit(20);
    config = "run:\n";
    temp_dir_write(path, journal, strlen(journal));
    ck_assert_int_eq(resume_open(&r, checkpoints, NULL, on_skipped, NULL, err), 0);
    ck_assert_int_eq(resume_saved_config(r, NULL, NULL, &saved, err), 0);
    rc = resume_config_check(ret,
                             &(struct resume_from){.saved = &saved,
                                                   .step = 20,
                                                   .wanted = &wanted,
                                                   .journal = change_source_of(path)},
                             err);
    run_config_done(&saved);
    resume_free(r);
    run_config_done(&wanted);
    return rc;
}

static int names_after_a_kill(void *ctx, const struct env_config *env,
                              const char *const **ret_names, struct err *err)
{
    return err_set(err, ERR_AGENT, "its process was killed");
}

/* The checkpoint's configuration may be that of this build: --anyway must not take another. */
START_TEST(test_a_process_that_is_killed_is_no_other_build)
{
    struct run_config saved;
    struct err err = {0};
    struct resume *r;

    config = "env: {id: simple_spread}\n";
    commit(20);
    config = "run:\n";
    ck_assert_int_eq(resume_open(&r, checkpoints, NULL, on_skipped, NULL, &err), 0);
    ck_assert_int_eq(resume_saved_config(r, names_after_a_kill, NULL, &saved, &err),
                     ERR_AGENT);
    ck_assert_ptr_null(strstr(err.msg, "another build"));
    resume_free(r);
}
END_TEST

#define AGREED                                                                           \
    "t step=10 event=set at=10 changes=defaults.polyak=0.9\n"                            \
    "t step=30 event=set at=90 changes=defaults.polyak=0.5,run.env_steps=7\n"            \
    "t step=40 event=set at=40 changes=defaults.discount=0.5\n"

/* Changes that were committed for later steps are planned again; a length that differs from
 * the journal's is a change of the checkpoint's step, and cancels that for a later one. */
START_TEST(test_changes_are_made_again)
{
    static const char *const set[] = {"defaults.polyak=0.5", "defaults.discount=0.5",
                                      "run.env_steps=900"};
    struct resume_config c;
    struct err err = {0};

    ck_assert_msg(check_config(set, 3, AGREED, &c, &err) == 0, "%s", err.msg);
    ck_assert(c.config.defaults.polyak == 0.01 && c.config.defaults.discount == 0.95);
    ck_assert_int_eq(c.config.run.env_steps, 0);
    ck_assert_uint_eq(c.plan.n, 3);
    ck_assert_uint_eq(c.plan.list[0].at, 20);
    ck_assert_int_eq(change_plan_length(&c.plan, &c.config, 20).env_steps, 900);
    ck_assert_uint_eq(c.plan.list[1].at, 40);
    ck_assert_str_eq(c.plan.list[2].set.path, "defaults.polyak");
    ck_assert(c.plan.list[2].set.value.real == 0.5);
    ck_assert(c.wanted.defaults.polyak == 0.5);
    ck_assert_uint_eq(c.given.n, 1);
    ck_assert_str_eq(c.cancelled, "run.env_steps@90");
    resume_config_done(&c);
}
END_TEST

/* The supervisor died after writing the journal, before writing config.yaml. */
START_TEST(test_the_newest_change_may_be_in_the_journal_only)
{
    static const char *const set[] = {"defaults.polyak=0.5", "run.env_steps=7",
                                      "defaults.discount=0.5"};
    struct resume_config c;
    struct err err = {0};

    ck_assert_msg(check_config(set, 2, AGREED, &c, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.plan.n, 3);
    ck_assert(c.wanted.defaults.discount == 0.5 && c.given.n == 0);
    resume_config_done(&c);
    /* a length is no exception */
    ck_assert_msg(check_config(set, 3,
                               AGREED
                               "t step=50 event=set at=95 changes=run.env_steps=99\n",
                               &c, &err) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(c.wanted.run.env_steps, 99);
    ck_assert(c.given.n == 0 && c.cancelled == NULL && c.plan.n == 4);
    resume_config_done(&c);
}
END_TEST

/* The same for a change that was cancelled. */
START_TEST(test_the_newest_cancellation_may_be_in_the_journal_only)
{
    static const char *const set[] = {"defaults.polyak=0.5", "defaults.discount=0.5"};
    struct resume_config c;
    struct err err = {0};

    ck_assert_msg(
        check_config(set, 2, AGREED "t step=41 event=cancel changes=defaults.polyak@90\n",
                     &c, &err) == 0,
        "%s", err.msg);
    ck_assert_uint_eq(c.plan.n, 1);
    ck_assert_str_eq(c.plan.list[0].set.path, "defaults.discount");
    ck_assert(c.wanted.defaults.polyak == 0.01 && c.wanted.defaults.discount == 0.5);
    resume_config_done(&c);
    ck_assert_msg(check_config(set + 1, 1,
                               AGREED
                               "t step=41 event=cancel changes=defaults.polyak@90\n",
                               &c, &err) == 0,
                  "%s", err.msg);
    ck_assert(c.wanted.defaults.polyak == 0.01 && c.plan.n == 1);
    resume_config_done(&c);
}
END_TEST

START_TEST(test_a_change_that_nobody_agreed_on)
{
    static const char *const set[] = {"defaults.polyak=0.7", "defaults.discount=0.5"};
    struct resume_config c;
    struct err err = {0};

    ck_assert_int_eq(check_config(set, 2, AGREED, &c, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "polyak: 0.7"));
    ck_assert_ptr_null(c.plan.list);
}
END_TEST

/* The change keeps waiting for a respawn. */
START_TEST(test_what_waits_is_no_difference)
{
    static const char *const set[] = {"agents.a.optimizer.beta1=0.5"};
    struct resume_config c;
    struct err err = {0};

    ck_assert_msg(check_config(set, 1, "", &c, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.plan.n, 0);
    ck_assert(c.config.agents[0].optimizer.beta1 == 0.9);
    ck_assert(c.wanted.agents[0].optimizer.beta1 == 0.5);
    resume_config_done(&c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("resume");
    TCase *tc = tcase_create("resume");

    tcase_set_timeout(tc, 100);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, test_numerics_decide, 0,
                        sizeof(numerics_cases) / sizeof(numerics_cases[0]));
    tcase_add_loop_test(tc, test_numerics_reach, 0,
                        sizeof(reach_cases) / sizeof(reach_cases[0]));
    tcase_add_loop_test(tc, test_numerics_reach_variables, 0,
                        sizeof(variable_cases) / sizeof(variable_cases[0]));
    tcase_add_test(tc, test_blocks_come_back_whole);
    tcase_add_test(tc, test_newest_complete_one);
    tcase_add_loop_test(tc, test_every_byte_flipped, 0, 5);
    tcase_add_test(tc, test_none_is_left);
    tcase_add_test(tc, test_some_are_kept_for_good);
    tcase_add_test(tc, test_the_copy_is_pinned);
    tcase_add_test(tc, test_rows_are_synced_before_the_checkpoint);
    tcase_add_test(tc, test_a_file_that_goes_meanwhile_needs_no_sync);
    tcase_add_test(tc, test_a_checkpoint_waits_for_what_it_promises);
    tcase_add_loop_test(tc, test_no_checkpoint_after_a_failed_sync, 0, 2);
    tcase_add_test(tc, test_another_checkpoint_after_a_failed_sync_of_its_own);
    tcase_add_test(tc, test_a_failure_is_no_end);
    tcase_add_test(tc, test_a_failed_copy_is_not_repeated);
    tcase_add_test(tc, test_what_cannot_be_read_is_not_damaged);
    tcase_add_test(tc, test_a_process_that_is_killed_is_no_other_build);
    tcase_add_test(tc, test_changes_are_made_again);
    tcase_add_test(tc, test_the_newest_change_may_be_in_the_journal_only);
    tcase_add_test(tc, test_the_newest_cancellation_may_be_in_the_journal_only);
    tcase_add_test(tc, test_a_change_that_nobody_agreed_on);
    tcase_add_test(tc, test_what_waits_is_no_difference);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
