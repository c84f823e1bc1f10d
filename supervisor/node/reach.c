#include "supervisor/node/reach.h"

#include "common/config/yaml_tree.h"
#include "common/io/monotonic.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/node/lookup.h"
#include "supervisor/node/placement.h"
#include "supervisor/node/slurm.h"
#include "supervisor/proc/command_output.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_MACHINES = 64 }; /* of Slurm's that are looked up */

/* ---- this machine's addresses ---- */

/* Returns 0 if it is of no use to others: an address without a scope is needed. */
static int print_own(char ret[REACH_BYTES], const struct sockaddr_storage *own)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)own;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)own;
    char text[INET6_ADDRSTRLEN];

    if (own->ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        (void)snprintf(ret, REACH_BYTES, "%s", text);
        return 1;
    }
    if (own->ss_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
        return 0;
    (void)inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
    (void)snprintf(ret, REACH_BYTES, "[%s]", text);
    return 1;
}

/* Connecting a datagram's socket chooses the way, and so the own address. */
static int look_up_way(const struct addrinfo *to, char ret[REACH_BYTES])
{
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int found = 0;

    if (fd < 0)
        return 0;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &len) == 0)
        found = print_own(ret, &own);
    (void)close(fd);
    return found;
}

/* From which address this machine would send to a host. */
static int own_address(const struct lookup *host, char ret[REACH_BYTES], struct err *err)
{
    int found = 0;

    if (host->err.code != 0)
        return err_pass(err, &host->err);
    for (const struct addrinfo *a = host->list; a != NULL && !found; a = a->ai_next)
        found = look_up_way(a, ret);
    return found ? 0 : err_set(err, ERR_NOT_FOUND, "%s: no way leads there", host->name);
}

void reach_first(char ret[REACH_BYTES])
{
    struct ifaddrs *all = NULL;

    (void)snprintf(ret, REACH_BYTES, "127.0.0.1");
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
            (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0)
            continue;
        (void)inet_ntop(
            AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr,
            ret, REACH_BYTES);
        break;
    }
    freeifaddrs(all);
}

/* ---- what the launchers call their hosts ---- */

/* The value of a line "key value" of `ssh -G`, in place; NULL: there is none. */
static char *value_of(char *output, const char *key)
{
    for (char *line = output; line != NULL && *line != '\0';) {
        char *value = (char *)(uintptr_t)text_after(line, key);

        if (value != NULL && *value == ' ') {
            value[strcspn(value, "\n")] = '\0';
            return value + 1;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return NULL;
}

/* What is left of the time. */
static int left_ms(int64_t until)
{
    const int64_t left = until - monotonic_ms();

    return left > 0 ? (int)left : 0;
}

/* What ssh calls the host of a node. */
static int take_name(struct asked_command *ssh, const char *host, const char **ret,
                     struct err *err)
{
    if (ssh->err.code != 0) {
        (void)err_pass(err, &ssh->err);
        return err_wrap(err, "%s", host);
    }
    if (value_of(ssh->output, "proxyjump") != NULL ||
        value_of(ssh->output, "proxycommand") != NULL)
        return err_set(err, ERR_NOT_FOUND, "%s: the way leads through a proxy", host);
    *ret = value_of(ssh->output, "hostname");
    if (*ret == NULL)
        *ret = host;
    return 0;
}

/* Of the first n nodes, each of which has a host of its own. */
static void reach_ssh(const struct cluster_config *config, size_t n, int timeout_ms,
                      struct reach *ret)
{
    const int64_t until = monotonic_ms() + timeout_ms;
    struct asked_command *ssh = xcalloc(n, sizeof(*ssh));
    struct lookup *hosts = xcalloc(n, sizeof(*hosts));
    size_t *node = xcalloc(n, sizeof(*node)), n_hosts = 0;
    struct arena arena = ARENA_ZERO;

    for (size_t i = 0; i < n; i++) {
        struct words w = {.arena = &arena};

        words_add(&w, "ssh", "-G", NULL);
        placement_add_options(config, &w);
        words_add(&w, "--", placement_host(config, i), NULL);
        ssh[i].argv = w.list;
    }
    commands_ask(ssh, n, timeout_ms / 2); /* one that hangs leaves time for the others */
    for (size_t i = 0; i < n; i++) {
        node[n_hosts] = i;
        if (take_name(&ssh[i], placement_host(config, i), &hosts[n_hosts].name,
                      &ret[i].why) == 0)
            n_hosts++;
    }
    lookup_all(hosts, n_hosts, left_ms(until));
    for (size_t k = 0; k < n_hosts; k++)
        (void)own_address(&hosts[k], ret[node[k]].address, &ret[node[k]].why);
    lookup_done(hosts, n_hosts);
    for (size_t i = 0; i < n; i++)
        free(ssh[i].output);
    arena_done(&arena);
    free(node);
    free(hosts);
    free(ssh);
}

/* machines: what sinfo has printed; it is cut. */
static void reach_machines(char *machines, int64_t until, struct reach *ret)
{
    struct lookup hosts[MAX_MACHINES] = {0};
    char *rest = machines, own[REACH_BYTES];
    size_t n = 0;
    int rc = err_set(&ret->why, ERR_NOT_FOUND, "sinfo lists no machine");

    for (char *name; n < MAX_MACHINES && (name = strsep(&rest, " \n")) != NULL;)
        if (*name != '\0')
            hosts[n++].name = name;
    lookup_all(hosts, n, left_ms(until));
    for (size_t i = 0; i < n; i++) {
        if (own_address(&hosts[i], own, rc < 0 ? &ret->why : NULL) < 0)
            continue;
        (void)snprintf(ret->address, sizeof(ret->address), "%s", own);
        ret->why = (struct err){0};
        rc = 0;
        if (text_after(own, "127.") == NULL && strcmp(own, "[::1]") != 0)
            break;
    }
    lookup_done(hosts, n);
}

static void reach_slurm(int timeout_ms, struct reach *ret)
{
    const int64_t until = monotonic_ms() + timeout_ms;
    const char *job = slurm_job() != NULL ? getenv("SLURM_JOB_NODELIST") : NULL;
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    char *output = NULL;

    words_add(&w, "sinfo", "--noheader", "--Node", "--format=%o", NULL);
    if (job != NULL)
        words_add(&w, arena_printf(&arena, "--nodes=%s", job), NULL);
    if (command_ask(w.list, timeout_ms, &output, &ret->why) == 0)
        reach_machines(output, until, ret);
    free(output);
    arena_done(&arena);
}

/* How many of the n nodes may reach this machine in different ways. */
static size_t n_ways(const struct cluster_config *config, size_t n)
{
    if (config->launcher != LAUNCHER_SSH)
        return n > 0;
    return config->hosts != NULL && config->hosts->n < n ? config->hosts->n : n;
}

void reach_all(const struct cluster_config *config, size_t n, int timeout_ms,
               struct reach *ret)
{
    const size_t own = n_ways(config, n);

    for (size_t i = 0; i < n; i++)
        ret[i] = (struct reach){.address = "127.0.0.1"};
    if (config->launcher == LAUNCHER_COMMAND && own > 0)
        (void)snprintf(ret->address, sizeof(ret->address), "0.0.0.0");
    else if (config->launcher == LAUNCHER_SSH)
        reach_ssh(config, own, timeout_ms, ret);
    else if (config->launcher == LAUNCHER_SLURM && own > 0)
        reach_slurm(timeout_ms, ret);
    for (size_t i = 0; i < own; i++)
        if (ret[i].why.code != 0)
            reach_first(ret[i].address);
    for (size_t i = own; i < n; i++)
        ret[i] = ret[i % own];
}
