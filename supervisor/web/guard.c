#include "supervisor/web/guard.h"

#include "common/text/scan.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static int draw_secret(char ret[GUARD_SECRET_BYTES], struct err *err)
{
    unsigned char bytes[(GUARD_SECRET_BYTES - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_errno(err, "getrandom");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int guard_init(struct guard *ret, struct err *err)
{
    int rc;

    *ret = (struct guard){0};
    rc = draw_secret(ret->token, err);
    return rc < 0 ? rc : draw_secret(ret->cookie, err);
}

void guard_set_port(struct guard *g, int port)
{
    (void)snprintf(g->cookie_name, sizeof(g->cookie_name), "brood-%d", port);
    (void)snprintf(g->hosts[0], sizeof(g->hosts[0]), "127.0.0.1:%d", port);
    (void)snprintf(g->hosts[1], sizeof(g->hosts[1]), "localhost:%d", port);
    /* A browser leaves out the default port of http. */
    (void)snprintf(g->hosts[2], sizeof(g->hosts[2]), "%s", port == 80 ? "127.0.0.1" : "");
    (void)snprintf(g->hosts[3], sizeof(g->hosts[3]), "%s", port == 80 ? "localhost" : "");
}

/* Whether text, len bytes long, is the secret. The time does not depend on how many of
 * its characters are right. */
static int is_secret(const char secret[GUARD_SECRET_BYTES], const char *text, size_t len)
{
    unsigned char differs = len != GUARD_SECRET_BYTES - 1;

    for (size_t i = 0; i < GUARD_SECRET_BYTES - 1; i++)
        differs |= (unsigned char)(secret[i] ^ (i < len ? text[i] : 0));
    return !differs;
}

int guard_token(const struct guard *g, const char *token)
{
    return token != NULL && is_secret(g->token, token, strlen(token));
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

int guard_cookie(const struct guard *g, const char *cookies)
{
    const size_t len = strlen(g->cookie_name);

    while (cookies != NULL && *cookies != '\0') {
        const char *value = cookies + len + 1;

        if (strncmp(cookies, g->cookie_name, len) == 0 && cookies[len] == '=' &&
            is_secret(g->cookie, value, strcspn(value, ";")))
            return 1;
        cookies += strcspn(cookies, ";");
        cookies += strspn(cookies, "; ");
    }
    return 0;
}
