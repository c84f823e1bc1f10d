#include "agent/session/session.h"
#include "common/io/signal_process.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "common/numerics/numerics.h"
#include "tests/agent/loop_help.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SMALL "{actor: {hidden: [16, 16]}, critic: {hidden: [16, 16]}}"
#define BATCH 32

static void start_configured(struct agent_process *p, int block_fd, int log_fd,
                             int restored)
{
    agent_process_start(p, "agent_0", block_fd, log_fd);
    check_hello(p);
    ck_assert_msg(agent_process_configure(p, SMALL, 1, 0, restored) == 0, "%s",
                  p->reply.error.msg);
}

/* ---- hello and ends ---- */

START_TEST(test_hello)
{
    struct agent_process p;
    uint64_t pid = 0, protocol = 0, numerics = 0;
    char id[128] = "", print[64] = "", first[64];
    struct err err;

    agent_process_start(&p, "agent_0", -1, -1);
    check_hello(&p);
    ck_assert_int_eq(msg_get_u64(&p.reply.body, "protocol", 1000, &protocol, &err), 0);
    ck_assert_int_eq(msg_get_u64(&p.reply.body, "pid", INT32_MAX, &pid, &err), 0);
    ck_assert_int_eq(msg_get_str(&p.reply.body, "build_id", id, sizeof(id), &err), 0);
    ck_assert_int_eq(
        msg_get_str(&p.reply.body, "fingerprint", print, sizeof(print), &err), 0);
    ck_assert_int_eq(msg_get_u64(&p.reply.body, "numerics", 1000, &numerics, &err), 0);
    ck_assert_uint_eq(protocol, PROTOCOL_VERSION);
    ck_assert_uint_eq(numerics, NUMERICS_VERSION);
    ck_assert_int_eq((pid_t)pid, p.pid);
    ck_assert_uint_eq(strlen(id), 40); /* a SHA-1 */
    ck_assert_uint_eq(strlen(print), 16);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE); /* at end of file */

    memcpy(first, print, sizeof(first));
    agent_process_start(&p, "agent_0", -1, -1);
    check_hello(&p);
    ck_assert_int_eq(
        msg_get_str(&p.reply.body, "fingerprint", print, sizeof(print), &err), 0);
    ck_assert_str_eq(print, first);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

START_TEST(test_shutdown)
{
    struct agent_process p;

    start_configured(&p, -1, -1, 0);
    ck_assert_int_eq(call_empty(&p, "ping"), 0);
    ck_assert_int_eq(call_empty(&p, "shutdown"), 0);
    ck_assert_int_eq(agent_process_read(&p), 0); /* exits; our ends are open */
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n - 2;
}

/* The process has one thread, only the descriptors of the protocol, and its own
 * session. */
START_TEST(test_process)
{
    struct agent_process p;
    char path[64], link[64];
    const int block = agent_process_block();
    ssize_t n;

    (void)setenv("BROOD_DEBUG", "1", 1); /* else root alone sees its files */
    start_configured(&p, block, -1, 0);
    (void)unsetenv("BROOD_DEBUG");
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)p.pid);
    ck_assert_int_eq(count_entries(path), 1);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)p.pid);
    ck_assert_int_eq(count_entries(path), 6); /* 0 to 5 */
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)p.pid);
    n = readlink(path, link, sizeof(link) - 1);
    ck_assert_int_gt(n, 0);
    link[n] = '\0';
    ck_assert_str_eq(link, "/dev/null");
    ck_assert_int_eq(getsid(p.pid), p.pid);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    (void)close(block);
}
END_TEST

/* ---- requests that are wrong ---- */

START_TEST(test_wrong_state)
{
    struct agent_process p;

    agent_process_start(&p, "agent_0", -1, -1);
    check_hello(&p);
    ck_assert_int_eq(call_empty(&p, "act"), ERR_STATE);
    ck_assert_str_eq(p.reply.error.msg, "act: not configured yet");
    ck_assert_int_eq(call_empty(&p, "learn"), ERR_NOT_FOUND);
    ck_assert_int_eq(agent_process_configure(&p, SMALL, 1, 0, 0), 0);
    ck_assert_int_eq(agent_process_configure(&p, SMALL, 1, 0, 0), ERR_STATE);
    ck_assert_int_eq(call_empty(&p, "no such method"), ERR_NOT_FOUND);
    ck_assert_int_eq(call_empty(&p, "act"), ERR_SHAPE);
    ck_assert_int_eq(call_empty(&p, "learn"), ERR_ARG); /* no rows */
    ck_assert_int_eq(call_empty(&p, "set"), ERR_PROTOCOL);
    ck_assert_int_eq(call_empty(&p, "ping"), 0);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

/* After a failed configure the agent can be configured again. */
START_TEST(test_wrong_configure)
{
    static const char *const wrong[] = {
        "{optimizer: {type: unheard_of}}", "{actor: {hidden: [0]}}", "{nonsense: 1}", "[",
        "{settings: {execute: soft}}",
    };
    struct agent_process p;

    agent_process_start(&p, "agent_0", -1, -1);
    check_hello(&p);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(agent_process_configure(&p, wrong[i], 1, 0, 0) < 0, "%s", wrong[i]);
    ck_assert_int_eq(call_empty(&p, "configure"), ERR_PROTOCOL);
    ck_assert_int_lt(agent_process_configure(&p, SMALL, 2, 5, 0), 0); /* no agent 5 */
    ck_assert_msg(agent_process_configure(&p, SMALL, 2, 1, 0) == 0, "%s",
                  p.reply.error.msg);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

static int configure_numerics(struct agent_process *p, const char *numerics)
{
    struct msg_out *o = agent_process_request(p, "configure");

    agent_process_pack_configure(o, SMALL, 1, 0, 0, numerics);
    return agent_process_call(p);
}

START_TEST(test_numerics)
{
    static const char *const known[] = {"portable", "native"};
    struct agent_process p;
    int portable = 0;

    for (size_t i = 0; i < 2; i++) {
        agent_process_start(&p, "agent_0", -1, -1);
        check_hello(&p);
        ck_assert_int_eq(configure_numerics(&p, "exact"), ERR_PROTOCOL);
        ck_assert_str_eq(p.reply.error.msg, "numerics: 'portable' or 'native' expected");
        ck_assert_msg(configure_numerics(&p, known[i]) == 0, "%s", p.reply.error.msg);
        ck_assert_int_eq(msg_get_bool(&p.reply.body, "portable", &portable, NULL), 0);
        ck_assert(portable); /* of the graph, whatever the mode */
        ck_assert_ptr_null(msg_get(&p.reply.body, "because"));
        check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    }
}
END_TEST

static const struct {
    const char *name;
    uint8_t bytes[16];
    size_t len;
} hostile[] = {
    {"a length of 4 GiB", {0xff, 0xff, 0xff, 0xff}, 4},
    {"a length of 0", {0, 0, 0, 0}, 4},
    {"an array of 4 G objects", {5, 0, 0, 0, 0xdd, 0xff, 0, 0, 0}, 9},
    {"a message cut short", {1, 0, 0, 0, 0x94}, 5},
    {"no array", {1, 0, 0, 0, 0xc0}, 5},
    {"half a frame", {8, 0, 0, 0, 0x94, 0}, 6},
    /* [1, 0, nil, nil]: a response */
    {"no request", {5, 0, 0, 0, 0x94, 1, 0, 0xc0, 0xc0}, 9},
};

START_TEST(test_hostile_frames)
{
    struct agent_process p;
    char text[4096];

    agent_process_start(&p, "agent_0", -1, -1);
    check_hello(&p);
    agent_process_write(&p, hostile[_i].bytes, hostile[_i].len);
    (void)close(p.to);
    p.to = -1;
    ck_assert_int_eq(agent_process_read(&p), 0);
    agent_process_stderr(&p, text, sizeof(text));
    ck_assert_msg(strchr(text, '\n') != NULL, "%s: no line on stderr", hostile[_i].name);
    check_exited(agent_process_end(&p), AGENT_EXIT_NO_RESPAWN);
}
END_TEST

/* ---- launching ---- */

static int run_program(char *const *argv)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)close(2);
        (void)execv(argv[0], argv);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(test_launcher)
{
    char exe[4096], parent[32], stranger[] = "1";
    char launch[] = "launch", dashes[] = "--", sh[] = "/bin/sh", c[] = "-c";
    char script[] = "test -z \"$BROOD_TEST_SECRET$SECRET\" || exit 3;"
                    "test \"$LANG\" = C || exit 4; test ! -e /proc/self/fd/9 || exit 5;"
                    "test \"$(cat /proc/self/oom_score_adj)\" = 500 || exit 6;"
                    "test $(ulimit -Sn) -le 1024 || exit 7; exit 42";
    char *argv[] = {exe, launch, parent, dashes, sh, c, script, NULL};
    const int spare = dup2(open("/dev/null", O_RDONLY), 9);

    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    ck_assert_int_eq(spare, 9);
    ck_assert_int_eq(setenv("SECRET", "x", 1), 0);
    check_exited(run_program(argv), 42);
    argv[2] = stranger; /* pretends that the parent has exited */
    check_exited(run_program(argv), AGENT_EXIT_NO_RESPAWN);
}
END_TEST

/* Standard input is /dev/null; with --input it is inherited, and so is the
 * environment. */
START_TEST(test_launcher_input)
{
    char exe[4096], parent[32], launch[] = "launch", dashes[] = "--", sh[] = "/bin/sh";
    char c[] = "-c", script[] = "read -r word && test $word = event && "
                                "test \"$SECRET$LANG\" = xC && exit 42; "
                                "test -z \"$SECRET\" && exit 43";
    char input[] = "--input";
    char *with[] = {exe, launch, parent, input, dashes, sh, c, script, NULL};
    char *without[] = {exe, launch, parent, dashes, sh, c, script, NULL};
    int ends[2];

    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "event\n", 6), 6);
    ck_assert_int_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(setenv("SECRET", "x", 1), 0);
    check_exited(run_program(without), 43);
    check_exited(run_program(with), 42);
}
END_TEST

/* ---- work ---- */

static void pack_acts(struct msg_out *o, const float *obs, int64_t n, uint64_t mode)
{
    const struct tensor t = tensor_const_view(DT_FLOAT, SHAPE(n, 18), obs);

    msg_map(o, 3);
    msg_put_u64(o, "mode", mode);
    msg_put_u64(o, "step", 100);
    msg_key(o, "obs");
    msg_tensor(o, &t);
}

START_TEST(test_act)
{
    struct agent_process p;
    float obs[4 * 18];
    struct tensor actions = TENSOR_NONE;
    struct err err;

    for (int i = 0; i < 4 * 18; i++)
        obs[i] = (float)i / 72;
    start_configured(&p, -1, -1, 0);
    pack_acts(agent_process_request(&p, "act"), obs, 4, ACT_EXPLORE);
    ck_assert_msg(agent_process_call(&p) == 0, "%s", p.reply.error.msg);
    ck_assert_int_eq(msg_get_tensor(&p.reply.body, "actions", &actions, &err), 0);
    ck_assert(shape_equal(&actions.shape, &SHAPE(4, 5)));
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

static int set_value(struct agent_process *p, const char *key, double value)
{
    struct msg_out *o = agent_process_request(p, "set");

    msg_map(o, 1);
    msg_key(o, "changes");
    msg_map(o, 2);
    msg_put_f64(o, key, value);
    msg_put_f64(o, "polyak", 0.5);
    return agent_process_call(p);
}

#define RATE "agent_0/hyperparameters/optimizer/learning_rate"

/* A request makes all of its changes or none. */
START_TEST(test_set)
{
    struct agent_process p;
    const char *polyak = "agent_0/hyperparameters/polyak/read:0";
    float before;

    start_configured(&p, -1, -1, 0);
    before = fetch_variable(&p, polyak);
    ck_assert_int_eq(set_value(&p, "settings.policy", 1), ERR_NOT_FOUND);
    ck_assert_int_eq(set_value(&p, "optimizer.learning_rate", (double)NAN), ERR_ARG);
    ck_assert_float_eq(fetch_variable(&p, polyak), before);
    ck_assert_int_eq(set_value(&p, "optimizer.learning_rate", 0.25), 0);
    ck_assert_float_eq(fetch_variable(&p, polyak), 0.5f);
    ck_assert_float_eq(fetch_variable(&p, RATE "/read:0"), 0.25f);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

/* A run without targets is pure: nothing that writes can be fetched. */
START_TEST(test_run_cannot_hide_a_write)
{
    struct agent_process p;
    struct err why;

    start_configured(&p, -1, -1, 0);
    ck_assert_int_eq(run_one(&p, "fetches", "agent_0/Adam/Assign:0", &why), ERR_ARG);
    ck_assert_int_eq(run_one(&p, "fetches", "no such tensor:0", &why), ERR_NOT_FOUND);
    ck_assert_float_gt(fetch_variable(&p, RATE "/read:0"), 0);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

/* A request that cannot be carried out gets a response with the reason; the agent lives
 * on. */
START_TEST(test_run_names_the_nearest)
{
    struct agent_process p;
    struct err why;

    start_configured(&p, -1, -1, 0);
    ck_assert_int_eq(run_one(&p, "fetches", RATE "/raed:0", &why), ERR_NOT_FOUND);
    ck_assert_msg(strstr(why.msg, "did you mean '" RATE "/read:0'?") != NULL, "%s",
                  why.msg);
    ck_assert_int_eq(run_one(&p, "fetches", RATE "/read", &why), ERR_ARG);
    ck_assert_int_eq(run_one(&p, "fetches", RATE "/read:7", &why), ERR_NOT_FOUND);
    ck_assert_msg(strstr(why.msg, "did you mean '" RATE "/read:0'?") != NULL, "%s",
                  why.msg);
    ck_assert_int_eq(run_one(&p, "fetches", "agent_0/Adam:0", &why), ERR_NOT_FOUND);
    ck_assert_msg(strstr(why.msg, "can be a target") != NULL, "%s", why.msg);
    ck_assert_int_eq(run_one(&p, "targets", "agent_0/Adma", &why), ERR_NOT_FOUND);
    ck_assert_msg(strstr(why.msg, "did you mean 'agent_0/Adam'?") != NULL, "%s", why.msg);
    ck_assert_int_eq(run_one(&p, "fetches", "agent_0/policy/nowhere", &why), ERR_ARG);
    ck_assert_float_gt(fetch_variable(&p, RATE "/read:0"), 0);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

static int stage(struct agent_process *p, const char *name, uint64_t update,
                 const uint64_t *rows, const struct tensor *proposal)
{
    struct msg_out *o = agent_process_request(p, name);
    const struct tensor t = tensor_const_view(DT_UINT64, SHAPE(1, BATCH, 1), rows);

    msg_map(o, proposal != NULL ? 5 : 4);
    msg_put_u64(o, "step", 100 * update);
    msg_put_u64(o, "update", update);
    msg_put_u64(o, "repeat", 0);
    msg_key(o, "rows");
    msg_tensor(o, &t);
    if (proposal != NULL) {
        msg_key(o, "inputs");
        msg_map(o, 1);
        msg_key(o, "agent_0/action");
        msg_tensor(o, proposal);
    }
    return agent_process_call(p);
}

static uint64_t hash_reply(uint64_t h, const struct msg *m)
{
    msgpack_sbuffer buf;
    msgpack_packer pk;

    msgpack_sbuffer_init(&buf);
    msgpack_packer_init(&pk, &buf, msgpack_sbuffer_write);
    (void)msgpack_pack_object(&pk, m->body);
    for (size_t i = 0; i < buf.size; i++)
        h = (h ^ (uint8_t)buf.data[i]) * UINT64_C(0x100000001b3);
    msgpack_sbuffer_destroy(&buf);
    return h;
}

/* One update: propose, then learn from the proposal. Returns the hash of all
 * responses. */
static uint64_t update(struct agent_process *p, uint64_t number, const uint64_t *rows)
{
    const msgpack_object *outputs = NULL;
    struct tensor t = TENSOR_NONE, proposal;
    struct err err;
    uint64_t h;

    ck_assert_msg(stage(p, "propose", number, rows, NULL) == 0, "%s", p->reply.error.msg);
    h = hash_reply(1, &p->reply);
    ck_assert_int_eq(msg_get_map(&p->reply.body, "outputs", &outputs, &err), 0);
    ck_assert_int_eq(msg_get_tensor(outputs, "action", &t, &err), 0);
    ck_assert_int_eq(tensor_copy(&proposal, &t, &err), 0);
    ck_assert_msg(stage(p, "critic", number, rows, &proposal) == 0, "%s",
                  p->reply.error.msg);
    tensor_free(&proposal);
    h = hash_reply(h, &p->reply);
    ck_assert_msg(stage(p, "learn", number, rows, NULL) == 0, "%s", p->reply.error.msg);
    return hash_reply(h, &p->reply);
}

static size_t block_bytes(const struct agent_process *p)
{
    uint64_t n = 0;
    struct err err;

    ck_assert_int_eq(msg_get_u64(&p->reply.body, "block_bytes", 1 << 30, &n, &err), 0);
    ck_assert_uint_gt(n, 0);
    return n;
}

static void *read_block(int fd, size_t n)
{
    void *p = xmalloc(n);

    ck_assert_int_eq(pread(fd, p, n, 0), (ssize_t)n);
    return p;
}

/* Snapshot, then ten updates. The process is killed; a new one that gets the snapshot
 * answers the same requests with the same bytes and ends with the same variables. */
START_TEST(test_respawn_is_exact)
{
    struct team_args args = team_spread(SMALL, 200);
    struct agent_process p;
    struct team *t;
    uint64_t rows[BATCH], first[10];
    int block = agent_process_block();
    void *snapshot, *calm, *again;
    size_t n;

    args.n = 1;
    t = team_new(&args); /* only its log is used */
    for (int i = 0; i < BATCH; i++)
        rows[i] = (uint64_t)(i * 5);
    start_configured(&p, block, t->log_fd, 0);
    n = block_bytes(&p);
    (void)update(&p, 0, rows);
    snapshot = read_block(block, n);
    for (uint64_t u = 0; u < 10; u++)
        first[u] = update(&p, 1 + u, rows);
    calm = read_block(block, n);
    ck_assert_int_ne(memcmp(calm, snapshot, n), 0);
    ck_assert_int_eq(signal_process(p.pid, SIGKILL), 0);
    ck_assert(WIFSIGNALED(agent_process_end(&p)));

    ck_assert_int_eq(pwrite(block, snapshot, n, 0), (ssize_t)n);
    start_configured(&p, block, t->log_fd, 1);
    for (uint64_t u = 0; u < 10; u++)
        ck_assert_uint_eq(update(&p, 1 + u, rows), first[u]);
    again = read_block(block, n);
    ck_assert_int_eq(memcmp(again, calm, n), 0);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    free(snapshot);
    free(calm);
    free(again);
    (void)close(block);
    team_free(t);
}
END_TEST

/* The same with messages, for agents that share no memory. Pure requests in between
 * change no byte (BROOD_CHECK_PURE: the agent compares, too). */
START_TEST(test_snapshot_and_restore_messages)
{
    struct agent_process p;
    const msgpack_object *o;
    float obs[18] = {0};
    void *block;
    size_t n;

    ck_assert_int_eq(setenv("BROOD_CHECK_PURE", "1", 1), 0);
    start_configured(&p, -1, -1, 0);
    n = block_bytes(&p);
    ck_assert_int_eq(call_empty(&p, "snapshot"), 0);
    o = msg_get(&p.reply.body, "block");
    ck_assert_uint_eq(o->via.bin.size, n);
    block = xmalloc(n);
    memcpy(block, o->via.bin.ptr, n);
    pack_acts(agent_process_request(&p, "act"), obs, 1, ACT_SAMPLE);
    ck_assert_int_eq(agent_process_call(&p), 0);
    ck_assert_int_eq(set_value(&p, "discount", 0.5), 0);
    ck_assert_int_eq(call_empty(&p, "snapshot"), 0);
    ck_assert_int_ne(memcmp(msg_get(&p.reply.body, "block")->via.bin.ptr, block, n), 0);

    msg_map(agent_process_request(&p, "restore"), 1);
    msg_key(&p.out, "block");
    msg_bin(&p.out, block, n - 1);
    ck_assert_int_eq(agent_process_call(&p), ERR_SHAPE);
    msg_map(agent_process_request(&p, "restore"), 1);
    msg_key(&p.out, "block");
    msg_bin(&p.out, block, n);
    ck_assert_int_eq(agent_process_call(&p), 0);
    ck_assert_int_eq(call_empty(&p, "snapshot"), 0);
    ck_assert_int_eq(memcmp(msg_get(&p.reply.body, "block")->via.bin.ptr, block, n), 0);
    free(block);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

/* With rewards that are not finite, the learn stage fails and names the value. */
START_TEST(test_nonfinite)
{
    struct team_args args = team_spread(SMALL, 40);
    struct agent_process p;
    struct team *t;
    uint64_t rows[BATCH];
    const float nan = NAN;
    float even[BATCH * 5];
    const struct tensor proposal = tensor_const_view(DT_FLOAT, SHAPE(1, BATCH, 5), even);

    args.n = 1;
    t = team_new(&args);
    team_write(t, 3, 0, "reward", &nan);
    for (int i = 0; i < BATCH; i++)
        rows[i] = (uint64_t)i;
    for (int i = 0; i < BATCH * 5; i++)
        even[i] = 0.2f;
    start_configured(&p, -1, t->log_fd, 0);
    ck_assert_int_eq(stage(&p, "critic", 0, rows, &proposal), ERR_NONFINITE);
    ck_assert_str_eq(p.reply.error.msg,
                     "agent agent_0, stage critic: target_q_mean is not finite");
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    team_free(t);
}
END_TEST

/* Rows beyond the end of the log. */
START_TEST(test_rows_beyond_the_log)
{
    struct team_args args = team_spread(SMALL, 10);
    struct agent_process p;
    struct team *t;
    uint64_t rows[BATCH] = {[3] = 1u << 20};

    args.n = 1;
    t = team_new(&args);
    start_configured(&p, -1, t->log_fd, 0);
    ck_assert_int_eq(stage(&p, "propose", 0, rows, NULL), ERR_LIMIT);
    rows[3] = UINT64_MAX - 1;
    ck_assert_int_eq(stage(&p, "propose", 0, rows, NULL), ERR_LIMIT);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    team_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("loop");
    TCase *tc = tcase_create("loop");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_hello);
    tcase_add_test(tc, test_shutdown);
    tcase_add_test(tc, test_process);
    tcase_add_test(tc, test_wrong_state);
    tcase_add_test(tc, test_wrong_configure);
    tcase_add_test(tc, test_numerics);
    tcase_add_loop_test(tc, test_hostile_frames, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_test(tc, test_launcher);
    tcase_add_test(tc, test_launcher_input);
    tcase_add_test(tc, test_act);
    tcase_add_test(tc, test_set);
    tcase_add_test(tc, test_run_cannot_hide_a_write);
    tcase_add_test(tc, test_run_names_the_nearest);
    tcase_add_test(tc, test_respawn_is_exact);
    tcase_add_test(tc, test_snapshot_and_restore_messages);
    tcase_add_test(tc, test_nonfinite);
    tcase_add_test(tc, test_rows_beyond_the_log);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
