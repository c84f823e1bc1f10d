/* lookup.h - looks up the names of several hosts, side by side and within a time.
 *
 * getaddrinfo(3) knows no limit: a name server that does not answer may cost half a minute for each
 * name. So threads call it, and those that are late are left to themselves: when such a call
 * returns, its thread frees what it has found, and ends.
 *
 * Errors   are those of each name. ERR_NOT_FOUND: there is no such name; ERR_TIMEOUT; -errno: no
 *          thread could be started.
 */
#ifndef SUPERVISOR_NODE_LOOKUP_H
#define SUPERVISOR_NODE_LOOKUP_H

#include "common/err/err.h"

#include <netdb.h>
#include <stddef.h>

struct lookup {
    const char *name;
    struct addrinfo *list; /* of datagram sockets at the port "discard"; NULL: see err */
    struct err err;        /* code 0: none */
};

/* Looks up all n names. list and err are zero before. */
void lookup_all(struct lookup *l, size_t n, int timeout_ms);
/* Frees what was found. */
void lookup_done(struct lookup *l, size_t n);

#endif
