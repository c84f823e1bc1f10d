/* fake_agent.c - a scripted agent: it speaks the protocol, and its name chooses how it
 * misbehaves.
 *
 * argv: brood-agent agent <parent's pid> <name>; the name is mode[-n[-anything]]. Its
 * block is WORDS numbers that `learn` mixes with the request's value, deterministically;
 * `act` answers with their sum and changes nothing; `echo` only returns the payload, as
 * all methods do. A file <name>.runs in the working folder counts its processes, so that
 * a mode can apply to the first one only.
 */
#include "common/err/check.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/msg/protocol.h"
#include "common/numerics/numerics.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS                                                                            \
    ((size_t)1 << 17) /* 1 MiB: so large that not every request is worth a snapshot */
/* Block of mode `slow`, zeros after the numbers: snapshots are rare even on a busy
 * machine. */
#define SLOW_BYTES ((uint64_t)64 << 20)

struct fake {
    const char *name;
    char mode[AGENT_NAME_MAX];
    long n;         /* parameter of the mode */
    long run;       /* 0: the first process of this name */
    long n_request; /* 1: configure */
    int restored;
    uint64_t *block;
    struct frame_reader reader;
    struct msg in;
    struct msg_out out;
};

static int is_mode(const struct fake *f, const char *mode)
{
    return strcmp(f->mode, mode) == 0;
}

static void write_all(const void *data, size_t len)
{
    const char *p = data;
    ssize_t n;

    while (len > 0) {
        n = write(AGENT_FD_OUT, p, len);
        if (n < 0 && errno != EINTR)
            _exit(AGENT_EXIT_DONE);
        p += n > 0 ? n : 0;
        len -= (size_t)(n > 0 ? n : 0);
    }
}

static void send_out(struct fake *f)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&f->out, &frame, &len);
    write_all(frame, len);
}

static _Noreturn void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

static void count_run(struct fake *f)
{
    char path[128];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "%s.runs", f->name);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && write(fd, "x", 1) == 1);
    (void)close(fd);
    f->run = (long)st.st_size;
}

static void say_hello(struct fake *f)
{
    msg_begin_notification(&f->out, "hello");
    msg_map(&f->out, 5);
    msg_put_u64(&f->out, "numerics",
                NUMERICS_VERSION + (is_mode(f, "numerics") && f->run > 0));
    msg_put_u64(&f->out, "protocol", is_mode(f, "version") ? 99 : PROTOCOL_VERSION);
    msg_put_u64(&f->out, "pid", (uint64_t)getpid() + is_mode(f, "badpid"));
    msg_put_str(&f->out, "build_id",
                is_mode(f, "build") && f->run > 0 ? "build-2" : "build-1");
    msg_put_str(&f->out, "fingerprint",
                is_mode(f, "fingerprint") && f->run > 0 ? "f00d" : "beef");
    send_out(f);
}

/* Leaves a process behind that would run for ever. */
static void leave_grandchild(int own_session, int orphan)
{
    if (fork() != 0)
        return;
    if (own_session)
        (void)setsid();
    (void)signal(SIGTERM, SIG_IGN);
    if (orphan && fork() != 0)
        _exit(0);
    wait_for_ever();
}

/* Works for a second, sending progress. */
static void work_slowly(struct fake *f)
{
    for (int i = 0; i < 20; i++) {
        (void)usleep(50000);
        msg_begin_notification(&f->out, "progress");
        msg_map(&f->out, 0);
        send_out(f);
    }
}

static void take_memory(size_t bytes)
{
    char *p = malloc(bytes);

    CHECK(p != NULL);
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)p)[i] = 1;
    wait_for_ever();
}

/* Allocates memory for a second without sending anything. */
static void grow_slowly(void)
{
    const size_t bytes = (size_t)2 << 20;

    for (int i = 0; i < 20; i++) {
        char *p = malloc(bytes);

        CHECK(p != NULL);
        for (size_t k = 0; k < bytes; k += 4096)
            ((volatile char *)p)[k] = 1;
        (void)usleep(50000);
    }
}

static void flood_stderr(size_t bytes)
{
    char line[4096];
    ssize_t n;

    memset(line, 'f', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    for (; bytes >= sizeof(line); bytes -= sizeof(line)) {
        n = write(2, line, sizeof(line));
        (void)n;
    }
}

/* Carries out the mode when the n-th request of a process arrives, before it is
 * handled. */
static void misbehave(struct fake *f)
{
    static const uint8_t garbage[] = {4, 0, 0, 0, 0xc1, 0xff, 0x00, 0x13};
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x93};
    static const uint8_t bomb[] = {5, 0, 0, 0, 0xdd, 0xff, 0, 0, 0};

    if (is_mode(f, "kill") && f->run == 0 && f->n_request == f->n)
        (void)raise(SIGKILL);
    if (is_mode(f, "always") && f->n_request == f->n) {
        (void)fprintf(stderr, "first words\nlast words of %s\n", f->name);
        (void)raise(SIGKILL);
    }
    if (is_mode(f, "grows") && f->n_request == f->n)
        grow_slowly();
    if (is_mode(f, "slow") && f->n_request == f->n)
        work_slowly(f);
    if (f->run == 0 && f->n_request == f->n) {
        if (is_mode(f, "stopped"))
            (void)raise(SIGSTOP);
        if (is_mode(f, "spins"))
            for (volatile int i = 0;; i++)
                ;
        if (is_mode(f, "waits"))
            wait_for_ever();
        if (is_mode(f, "eats"))
            take_memory((size_t)200 << 20);
        if (is_mode(f, "naps"))
            (void)usleep(150000);
    }
    if (f->n_request != 2)
        return;
    if (is_mode(f, "exit"))
        _exit((int)f->n);
    if (is_mode(f, "later") && f->run < f->n)
        _exit(AGENT_EXIT_TRY_LATER);
    if (is_mode(f, "garbage"))
        write_all(garbage, sizeof(garbage));
    if (is_mode(f, "huge"))
        write_all(huge, sizeof(huge));
    if (is_mode(f, "bomb"))
        write_all(bomb, sizeof(bomb));
    if (is_mode(f, "flood"))
        flood_stderr((size_t)f->n << 20);
    if (is_mode(f, "closes")) {
        (void)close(AGENT_FD_OUT);
        wait_for_ever();
    }
    if (is_mode(f, "silent")) {
        write_all(bomb, 3);
        wait_for_ever();
    }
}

static void configure(struct fake *f)
{
    size_t i;

    CHECK(msg_get_bool(&f->in.body, "restored", &f->restored, NULL) == 0);
    for (i = 0; i < WORDS && !f->restored; i++) {
        CHECK(f->block[i] == 0, "a fresh block is not clear");
        f->block[i] = i;
    }
    msg_begin_response(&f->out, f->in.id);
    msg_map(&f->out, 2);
    msg_put_u64(&f->out, "block_bytes",
                is_mode(f, "bigblock") ? BLOCK_CAPACITY_BYTES + 1
                : is_mode(f, "slow")   ? SLOW_BYTES
                                       : WORDS * sizeof(f->block[0]));
    msg_put_u64(&f->out, "about", is_mode(f, "other") ? (uint64_t)f->run : 0);
    send_out(f);
}

/* Dies by SIGSEGV, also under a sanitizer, which would handle the signal. */
static void crash(void)
{
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

static void learn(struct fake *f)
{
    uint64_t value = 0;
    size_t i;

    CHECK(msg_get_u64(&f->in.body, "value", UINT64_MAX, &value, NULL) == 0);
    for (i = 0; i < WORDS; i++) {
        /* dies in the middle of its work: the block is half changed */
        if (is_mode(f, "poison") && (long)value == f->n && i == WORDS / 2)
            crash();
        f->block[i] = f->block[i] * 6364136223846793005u + value + i;
    }
}

static uint64_t block_sum(const struct fake *f)
{
    const int is_echo = strcmp(f->in.method, "echo") == 0;
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < WORDS && !is_echo; i++)
        sum = sum * 31 + f->block[i];
    return sum;
}

static void respond(struct fake *f)
{
    const void *payload = NULL;
    size_t payload_len = 0;
    const uint8_t *frame;
    size_t len;

    CHECK(msg_get_bin(&f->in.body, "payload", &payload, &payload_len, NULL) == 0);
    msg_begin_response(&f->out, f->in.id + is_mode(f, "wrongid"));
    msg_map(&f->out, 2);
    msg_put_u64(&f->out, "sum",
                block_sum(f) + (is_mode(f, "random") ? (uint64_t)f->run : 0));
    msg_key(&f->out, "payload");
    msg_bin(&f->out, payload, payload_len);
    msg_end(&f->out, &frame, &len);
    /* the work is done, but the response is not sent, or only a part of it */
    if (is_mode(f, "late") && f->run == 0 && f->n_request == f->n)
        (void)raise(SIGKILL);
    if (is_mode(f, "half") && f->run == 0 && f->n_request == f->n) {
        write_all(frame, len / 2);
        (void)raise(SIGKILL);
    }
    write_all(frame, len);
    if (is_mode(f, "twice") && f->run == 0)
        write_all(frame, len);
    if (is_mode(f, "after") && f->run == 0 && f->n_request == f->n)
        (void)raise(SIGKILL);
}

static void respond_error(struct fake *f)
{
    struct err err;

    (void)err_set(&err, ERR_NONFINITE, "the loss is no number");
    msg_error_response(&f->out, f->in.id, &err);
    send_out(f);
}

/* Dies, in every process, of the value that its name has. */
static void die_of_value(const struct fake *f)
{
    uint64_t value = 0;

    (void)msg_get_u64(&f->in.body, "value", UINT64_MAX, &value, NULL);
    if ((long)value == f->n)
        crash();
}

static void handle(struct fake *f)
{
    f->n_request++;
    misbehave(f);
    if (strcmp(f->in.method, "shutdown") == 0)
        _exit(AGENT_EXIT_DONE);
    if (strcmp(f->in.method, "configure") == 0) {
        configure(f);
    } else if (is_mode(f, "error")) {
        respond_error(f);
    } else {
        if (strcmp(f->in.method, "learn") == 0)
            learn(f);
        if (is_mode(f, "deadly"))
            die_of_value(f);
        respond(f);
    }
}

static void loop(struct fake *f)
{
    const uint8_t *data;
    uint8_t *room;
    size_t len, size;
    ssize_t n;

    for (;;) {
        while (frame_reader_next(&f->reader, &data, &len, NULL) > 0) {
            CHECK(msg_reparse(&f->in, data, len, NULL) == 0);
            handle(f);
        }
        CHECK(frame_reader_room(&f->reader, &room, &size, NULL) == 0);
        n = read(AGENT_FD_IN, room, size);
        if (n == 0)
            _exit(AGENT_EXIT_DONE);
        frame_reader_filled(&f->reader, n > 0 ? (size_t)n : 0);
    }
}

static void begin(struct fake *f, const char *parent, const char *name)
{
    char *dash;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(getppid() == (pid_t)strtol(parent, NULL, 10));
    f->name = name;
    (void)snprintf(f->mode, sizeof(f->mode), "%s", name);
    dash = strchr(f->mode, '-');
    if (dash != NULL) {
        *dash = '\0';
        f->n = strtol(dash + 1, NULL, 10);
    }
    if (!is_mode(f, "echo"))
        count_run(f);
    f->block = mmap(NULL, WORDS * sizeof(*f->block), PROT_READ | PROT_WRITE, MAP_SHARED,
                    AGENT_FD_BLOCK, 0);
    CHECK(f->block != MAP_FAILED);
    msg_out_init(&f->out);
    frame_reader_init(&f->reader, FRAME_MAX_BYTES);
}

int main(int argc, char **argv)
{
    static struct fake fake;
    struct fake *f = &fake;

    CHECK(argc == 4 && strcmp(argv[1], "agent") == 0, "argc %d", argc);
    begin(f, argv[2], argv[3]);
    if (is_mode(f, "deaf")) {
        (void)signal(SIGTERM, SIG_IGN);
        say_hello(f);
        wait_for_ever();
    }
    if (is_mode(f, "fork"))
        leave_grandchild(0, 0);
    if (is_mode(f, "session"))
        leave_grandchild(1, 0);
    if (is_mode(f, "orphan"))
        leave_grandchild(1, 1);
    say_hello(f);
    loop(f);
    return 0;
}
