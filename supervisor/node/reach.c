#include "supervisor/node/reach.h"

#include "common/config/yaml_tree.h"
#include "common/log/log.h"
#include "common/mem/words.h"
#include "common/text/scan.h"
#include "supervisor/node/node_launch.h"
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

enum {
    ASK_MS = 5000,
    MAX_MACHINES = 64, /* of Slurm's that are looked up */
};

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

int reach_from(const char *host, char ret[REACH_BYTES], struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *list;
    const int r = getaddrinfo(host, "9", &hints, &list);
    int found = 0;

    if (r != 0)
        return err_set(err, ERR_NOT_FOUND, "%s: %s", host, gai_strerror(r));
    for (const struct addrinfo *a = list; a != NULL && !found; a = a->ai_next)
        found = look_up_way(a, ret);
    freeaddrinfo(list);
    return found ? 0 : err_set(err, ERR_NOT_FOUND, "%s: no way leads there", host);
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

static int reach_ssh(const struct cluster_config *config, size_t node,
                     char ret[REACH_BYTES], struct err *err)
{
    const char *host = node_command_host(config, node), *name;
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    char *output = NULL;
    int rc;

    words_add(&w, "ssh", "-G", NULL);
    node_add_list(&w, config->options);
    words_add(&w, "--", host, NULL);
    rc = command_ask(w.list, ASK_MS, &output, err);
    if (rc == 0 && (value_of(output, "proxyjump") != NULL ||
                    value_of(output, "proxycommand") != NULL))
        rc = err_set(err, ERR_NOT_FOUND, "%s: the way leads through a proxy", host);
    if (rc == 0) {
        name = value_of(output, "hostname");
        rc = reach_from(name != NULL ? name : host, ret, err);
    }
    free(output);
    arena_done(&arena);
    return rc;
}

/* machines: what sinfo has printed; it is cut. */
static int reach_machines(char *machines, char ret[REACH_BYTES], struct err *err)
{
    char *rest = machines, own[REACH_BYTES];
    int rc = err_set(err, ERR_NOT_FOUND, "sinfo lists no machine"), n = 0;

    for (char *name; (name = strsep(&rest, " \n")) != NULL && n < MAX_MACHINES;) {
        if (*name == '\0')
            continue;
        n++;
        if (reach_from(name, own, rc < 0 ? err : NULL) < 0)
            continue;
        (void)snprintf(ret, REACH_BYTES, "%s", own);
        rc = 0;
        if (text_after(own, "127.") == NULL && strcmp(own, "[::1]") != 0)
            break;
    }
    return rc;
}

static int reach_slurm(char ret[REACH_BYTES], struct err *err)
{
    const char *job = slurm_job() != NULL ? getenv("SLURM_JOB_NODELIST") : NULL;
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    char *output = NULL;
    int rc;

    words_add(&w, "sinfo", "--noheader", "--Node", "--format=%o", NULL);
    if (job != NULL)
        words_add(&w, arena_printf(&arena, "--nodes=%s", job), NULL);
    rc = command_ask(w.list, ASK_MS, &output, err);
    if (rc == 0)
        rc = reach_machines(output, ret, err);
    free(output);
    arena_done(&arena);
    return rc;
}

void reach_auto(const struct cluster_config *config, size_t node, char ret[REACH_BYTES])
{
    struct err err = {0};

    if (config->launcher == LAUNCHER_LOCAL) {
        (void)snprintf(ret, REACH_BYTES, "127.0.0.1");
    } else if (config->launcher == LAUNCHER_COMMAND) {
        (void)snprintf(ret, REACH_BYTES, "0.0.0.0");
    } else if ((config->launcher == LAUNCHER_SSH ? reach_ssh(config, node, ret, &err)
                                                 : reach_slurm(ret, &err)) < 0) {
        reach_first(ret);
        log_info("cluster.listen: %s, since how node %zu reaches this machine is not "
                 "known: %s",
                 ret, node, err.msg);
    }
}
