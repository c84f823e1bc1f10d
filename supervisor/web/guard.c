#include "supervisor/web/guard.h"

#include "common/text/scan.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int guard_init(struct guard *ret, struct err *err)
{
    unsigned char bytes[(GUARD_TOKEN_BYTES - 1) / 2];

    *ret = (struct guard){0};
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_errno(err, "getrandom");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret->token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

void guard_set_port(struct guard *g, int port)
{
    (void)snprintf(g->hosts[0], sizeof(g->hosts[0]), "127.0.0.1:%d", port);
    (void)snprintf(g->hosts[1], sizeof(g->hosts[1]), "localhost:%d", port);
    /* A browser leaves out the default port of http. */
    (void)snprintf(g->hosts[2], sizeof(g->hosts[2]), "%s", port == 80 ? "127.0.0.1" : "");
    (void)snprintf(g->hosts[3], sizeof(g->hosts[3]), "%s", port == 80 ? "localhost" : "");
}

/* The time does not depend on how many of its characters are right. */
int guard_token(const struct guard *g, const char *token)
{
    const size_t len = token != NULL ? strlen(token) : 0;
    unsigned char differs = len != GUARD_TOKEN_BYTES - 1;

    for (size_t i = 0; i < GUARD_TOKEN_BYTES - 1; i++)
        differs |= (unsigned char)(g->token[i] ^ (i < len ? token[i] : 0));
    return !differs;
}

int guard_host(const struct guard *g, const char *host)
{
    for (int i = 0; host != NULL && *host != '\0' && i < GUARD_HOSTS; i++)
        if (strcmp(host, g->hosts[i]) == 0)
            return 1;
    return 0;
}

int guard_origin(const struct guard *g, const char *origin, int is_required)
{
    const char *host;

    if (origin == NULL)
        return !is_required;
    host = text_after(origin, "http://");
    return host != NULL && guard_host(g, host);
}
