/* A link between two network namespaces that loses, delays and reorders packets: a TUN device
 * in each, and this process between them. No kernel module is needed.
 *
 *     wire NAMESPACE NAME NAMESPACE NAME
 *
 * makes a device NAME in each namespace, which is a path such as /proc/PID/ns/net, and prints
 * "ready". The devices get no addresses, and are down; they are gone when this process is. Each
 * line on standard input changes the behaviour from then on; the process exits at the end of
 * its standard input:
 *
 *     seed N      of all random choices (1)
 *     delay US    each way, in microseconds
 *     lose N      of 1000 packets
 *     reorder N   of 1000 packets, which are not delayed and so overtake others
 *     count       prints "count CARRIED LOST REORDERED", in packets
 */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "tests/support/simulated.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <unistd.h>

enum {
    MAX_PACKET_BYTES = 1 << 16,
    MAX_HELD = 20000 /* packets each way; more are lost */
};

struct packet {
    TAILQ_ENTRY(packet) entry;
    uint64_t due_ns;
    size_t len;
    uint8_t data[];
};

struct way {
    TAILQ_HEAD(held, packet) held; /* the packet that is due first comes first */
    int n_held;
};

static int device[2];
static struct way way[2]; /* way[i]: from device[i] to the other */
static uint64_t delay_ns, lose, reorder, n_carried, n_lost, n_reordered;

/* Leaves the process in that namespace. */
static int open_device(const char *space, const char *name)
{
    const int ns = open(space, O_RDONLY | O_CLOEXEC);
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd;

    if (ns < 0 || setns(ns, CLONE_NEWNET) != 0) {
        perror(space);
        exit(1);
    }
    (void)close(ns);
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        perror("/dev/net/tun");
        exit(1);
    }
    return fd;
}

static void hold(struct way *w, const uint8_t *data, size_t len)
{
    struct packet *p = xmalloc(sizeof(*p) + len), *before = TAILQ_LAST(&w->held, held);
    const int overtakes = simulated_draw(1000) < reorder;

    p->due_ns = simulated_now_ns() + (overtakes ? 0 : delay_ns);
    p->len = len;
    memcpy(p->data, data, len);
    while (before != NULL && before->due_ns > p->due_ns)
        before = TAILQ_PREV(before, held, entry);
    if (before != NULL)
        TAILQ_INSERT_AFTER(&w->held, before, p, entry);
    else
        TAILQ_INSERT_HEAD(&w->held, p, entry);
    n_reordered += TAILQ_NEXT(p, entry) != NULL;
    w->n_held++;
}

static void take_packets(int i)
{
    static uint8_t data[MAX_PACKET_BYTES];
    ssize_t n;

    while ((n = read(device[i], data, sizeof(data))) > 0)
        if (simulated_draw(1000) < lose || way[i].n_held == MAX_HELD)
            n_lost++;
        else
            hold(&way[i], data, (size_t)n);
}

/* Returns the time of the next packet, ns; 0: there is none. A packet for a device that is down
 * is lost. */
static uint64_t give_packets(int i)
{
    struct packet *p;

    while ((p = TAILQ_FIRST(&way[i].held)) != NULL) {
        if (p->due_ns > simulated_now_ns())
            return p->due_ns;
        if (write(device[!i], p->data, p->len) == (ssize_t)p->len)
            n_carried++;
        else
            n_lost++;
        TAILQ_REMOVE(&way[i].held, p, entry);
        way[i].n_held--;
        free(p);
    }
    return 0;
}

static void obey(const char *word, uint64_t n)
{
    char text[100];

    if (strcmp(word, "delay") == 0)
        delay_ns = n * 1000;
    else if (strcmp(word, "lose") == 0)
        lose = n;
    else if (strcmp(word, "reorder") == 0)
        reorder = n;
    else if (strcmp(word, "count") == 0) {
        (void)snprintf(text, sizeof(text), "count %llu %llu %llu",
                       (unsigned long long)n_carried, (unsigned long long)n_lost,
                       (unsigned long long)n_reordered);
        simulated_print(text);
    }
}

/* Returns 0 at the end of standard input. */
static int turn(void)
{
    struct pollfd fds[3] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    uint64_t due_ns = 0;

    for (int i = 0; i < 2; i++) {
        const uint64_t next = give_packets(i);

        fds[1 + i] = (struct pollfd){.fd = device[i], .events = POLLIN};
        if (next > 0 && (due_ns == 0 || next < due_ns))
            due_ns = next;
    }
    simulated_poll(fds, 3, due_ns);
    for (int i = 0; i < 2; i++)
        take_packets(i);
    return fds[0].revents == 0 || simulated_commands(obey);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    for (int i = 0; i < 2; i++) {
        device[i] = open_device(argv[1 + 2 * i], argv[2 + 2 * i]);
        TAILQ_INIT(&way[i].held);
    }
    /* delays are fractions of a millisecond */
    (void)prctl(PR_SET_TIMERSLACK, 1);
    simulated_print("ready");
    while (turn())
        ;
    return 0;
}
