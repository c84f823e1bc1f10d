#include "tests/support/simulated.h"

#include "common/err/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t random_state = 1;

uint64_t simulated_now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void simulated_seed(uint64_t seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

uint64_t simulated_draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below > 0 ? random_state % below : 0;
}

void simulated_print(const char *line)
{
    (void)printf("%s\n", line);
    (void)fflush(stdout);
}

static void obey_line(const char *line, void (*obey)(const char *word, uint64_t n))
{
    unsigned long long n = 0;
    char word[16] = "";

    if (sscanf(line, "%15s %llu", word, &n) < 1)
        return;
    if (strcmp(word, "seed") == 0)
        simulated_seed(n);
    else
        obey(word, n);
}

int simulated_commands(void (*obey)(const char *word, uint64_t n))
{
    static char text[1000];
    static size_t len;
    const ssize_t n = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
    char *line = text, *end;

    if (n <= 0)
        return 0;
    len += (size_t)n;
    text[len] = '\0';
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        obey_line(line, obey);
    }
    len -= (size_t)(line - text);
    memmove(text, line, len);
    return 1;
}

void simulated_poll(struct pollfd *fds, nfds_t n, uint64_t due_ns)
{
    struct timespec t = {0};
    uint64_t left;

    if (due_ns > 0) {
        left = simulated_now_ns();
        left = due_ns > left ? due_ns - left : 0;
        t.tv_sec = (time_t)(left / 1000000000u);
        t.tv_nsec = (long)(left % 1000000000u);
    }
    if (ppoll(fds, n, due_ns > 0 ? &t : NULL, NULL) < 0)
        CHECK(errno == EINTR);
}
