/* hostile_agent.c - an agent that violates the protocol in a real run. A test installs it
 * beside `brood` as `brood-agent`; the file with its path plus ".does" chooses the fault.
 *
 * The first word names the fault and its place: before hello, in hello, or in the answer
 * to configure.
 */
#include "common/err/check.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/msg/protocol.h"
#include "common/numerics/numerics.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct msg_out out;

static void write_bytes(const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(AGENT_FD_OUT, p, len);

        if (n <= 0)
            _exit(AGENT_EXIT_DONE);
        p += n;
        len -= (size_t)n;
    }
}

static void send_out(void)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&out, &frame, &len);
    write_bytes(frame, len);
}

/* pid: as the message claims. */
static void hello(uint64_t pid)
{
    msg_begin_notification(&out, "hello");
    msg_map(&out, 5);
    msg_put_u64(&out, "numerics", NUMERICS_VERSION);
    msg_put_u64(&out, "protocol", PROTOCOL_VERSION);
    msg_put_u64(&out, "pid", pid);
    msg_put_str(&out, "build_id", "hostile");
    msg_put_str(&out, "fingerprint", "0");
    send_out();
}

static void garbage(void)
{
    uint32_t x = 1;

    for (int i = 0; i < 1 << 20; i++) {
        x = x * 1664525u + 1013904223u;
        write_bytes(&x, sizeof(x));
    }
}

static void endless_frame(void)
{
    static const uint8_t header[4] = {0xff, 0xff, 0xff, 0xff};

    write_bytes(header, sizeof(header));
}

static void deep_message(void)
{
    static uint8_t frame[4 + 100000];

    memset(frame, 0x91, sizeof(frame)); /* arrays in arrays of one */
    frame[0] = 100000 & 0xff;
    frame[1] = 100000 >> 8 & 0xff;
    frame[2] = 100000 >> 16;
    frame[3] = 0;
    write_bytes(frame, sizeof(frame));
}

static void huge_array(void)
{
    /* [1, 0, nil, an array of 4 G objects] */
    static const uint8_t frame[] = {9,    0,    0,    0,    0x94, 1,   0,
                                    0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff};

    write_bytes(frame, sizeof(frame));
}

static void complain_and_die(void)
{
    fprintf(stderr, "first words\nI cannot go on: \033[31m\xc2\x9b\x9bout of luck\n");
    (void)raise(SIGKILL);
}

static void flood_stderr(void)
{
    for (int i = 0; i < 100000; i++)
        (void)!write(STDERR_FILENO, "blah blah blah blah blah blah blah blah\n", 40);
    (void)!write(STDERR_FILENO, "the very last\n", 14);
    _exit(3);
}

/* Answers to configure, as the map of a response. */

static void say_nothing(void)
{
    msg_map(&out, 0);
}

/* A response with a block size, and n_more keys that the caller adds. */
static void begin_answer(uint64_t block_bytes, size_t n_more)
{
    msg_map(&out, 1 + n_more);
    msg_put_u64(&out, "block_bytes", block_bytes);
}

static void say_huge_block(void)
{
    begin_answer(UINT64_MAX, 0);
}

static void say_no_stages(void)
{
    begin_answer(64, 1);
    msg_put_str(&out, "stages", "many");
}

static void say_wide_carry(void)
{
    begin_answer(64, 1);
    msg_put_u64(&out, "carry", UINT64_MAX);
}

/* A variable outside of the block whose name is a path. */
static void say_wrong_variables(void)
{
    begin_answer(64, 2);
    msg_key(&out, "variables");
    msg_array(&out, 1);
    msg_array(&out, 5);
    msg_str(&out, "../../../x");
    msg_u64(&out, 1);
    msg_array(&out, 1);
    msg_u64(&out, 1u << 20);
    msg_u64(&out, 1u << 30);
    msg_str(&out, "variables");
    msg_key(&out, "stages");
    msg_array(&out, 0);
}

static void begin_never(void)
{
    (void)pause();
}

/* 1 if this process is the trial of a configuration, not an agent of a run. */
static int is_trial;

/* Never sends hello in a run. A trial exits, because the supervisor would wait for it. */
static void begin_no_run(void)
{
    if (is_trial)
        _exit(1);
    begin_never();
}

static const struct behaviour {
    const char *name;
    void (*before_hello)(void);
    void (*answer)(void); /* answers configure; NULL: not reached */
} behaviours[] = {
    {"garbage", garbage, NULL},
    {"endless-frame", endless_frame, NULL},
    {"deep-message", deep_message, NULL},
    {"huge-array", huge_array, NULL},
    {"complain-and-die", complain_and_die, NULL},
    {"flood-stderr", flood_stderr, NULL},
    {"begin-never", begin_never, NULL},
    {"begin-no-run", begin_no_run, NULL},
    {"say-nothing", NULL, say_nothing},
    {"say-huge-block", NULL, say_huge_block},
    {"say-no-stages", NULL, say_no_stages},
    {"say-wide-carry", NULL, say_wide_carry},
    {"say-wrong-variables", NULL, say_wrong_variables},
};

static const struct behaviour *find(const char *name)
{
    for (size_t i = 0; i < sizeof(behaviours) / sizeof(behaviours[0]); i++)
        if (strcmp(behaviours[i].name, name) == 0)
            return &behaviours[i];
    CHECK(0, "no behaviour '%s'", name);
    return NULL;
}

static const struct behaviour *read_behaviour(void)
{
    char path[4096], word[64] = "";
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 8);
    FILE *f;

    CHECK(n > 0);
    memcpy(path + n, ".does", 6);
    f = fopen(path, "r");
    CHECK(f != NULL && fscanf(f, "%63s", word) == 1, "%s", path);
    (void)fclose(f);
    return find(word);
}

int main(int argc, char **argv)
{
    const struct behaviour *b = read_behaviour();
    uint8_t request[65536];

    is_trial = argc > 3 && strcmp(argv[3], "trial") == 0;
    msg_out_init(&out);
    if (b->before_hello != NULL)
        b->before_hello();
    hello((uint64_t)getpid());
    if (read(AGENT_FD_IN, request, sizeof(request)) > 0 && b->answer != NULL) {
        msg_begin_response(&out, 0); /* configure is number 0 */
        b->answer();
        send_out();
    }
    (void)!read(AGENT_FD_IN, request, sizeof(request)); /* the next request ends it */
    msg_out_done(&out);
    return AGENT_EXIT_DONE;
}
