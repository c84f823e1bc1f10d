#include "supervisor/web/request.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <string.h>

/* Decodes a key or a value in place. */
static int decode(char *text, struct err *err)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        char c = *from == '+' ? ' ' : *from;

        if (c == '%') {
            const int high = hex_digit(from[1]);
            const int low = high < 0 ? -1 : hex_digit(from[2]);

            if (low < 0 || high + low == 0)
                return err_set(err, ERR_FORMAT, "a request has a malformed %% escape");
            c = (char)(high << 4 | low);
            from += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return 0;
}

static int take_pair(struct request *r, char *pair, struct err *err)
{
    char *value = strchr(pair, '=');
    int rc;

    if (value == NULL || value == pair)
        return err_set(err, ERR_FORMAT, "a request has a parameter without a value");
    if (r->n == REQUEST_MAX_PARAMS)
        return err_set(err, ERR_LIMIT, "a request has more than %d parameters",
                       REQUEST_MAX_PARAMS);
    *value++ = '\0';
    rc = decode(pair, err);
    if (rc == 0)
        rc = decode(value, err);
    if (rc == 0)
        r->param[r->n++] = (struct request_param){pair, value};
    return rc;
}

static int read_id(struct request *r, const char *word)
{
    uint64_t id;

    if (!text_u64(word, &id) || id == 0 || id > UINT32_MAX)
        return -1;
    r->id = (uint32_t)id;
    return 0;
}

int request_parse(struct request *ret, char *text, size_t len, struct err *err)
{
    char *next = text, *word;
    int rc = 0;

    ret->id = 0;
    ret->n = 0;
    ret->method = "";
    if (len > REQUEST_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "a request has more than %zu bytes",
                       REQUEST_MAX_BYTES);
    if (memchr(text, '\0', len) != NULL)
        return err_set(err, ERR_FORMAT, "a request has a zero byte");
    text[len] = '\0';
    word = strsep(&next, " ");
    if (read_id(ret, word) < 0 || next == NULL)
        return err_set(err, ERR_FORMAT, "a request does not begin with a number");
    ret->method = strsep(&next, " ");
    while (rc == 0 && next != NULL && (word = strsep(&next, "&")) != NULL)
        if (*word != '\0')
            rc = take_pair(ret, word, err);
    return rc;
}

static const char *append(char **at, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *to = memcpy(*at, text, size);

    *at += size;
    return to;
}

void request_copy(struct request *ret, char **ret_texts, const struct request *from)
{
    size_t size = strlen(from->method) + 1;
    char *at;

    for (size_t i = 0; i < from->n; i++)
        size += strlen(from->param[i].key) + strlen(from->param[i].value) + 2;
    *ret_texts = at = xcalloc(1, size);
    *ret = (struct request){.id = from->id, .n = from->n};
    ret->method = append(&at, from->method);
    for (size_t i = 0; i < from->n; i++) {
        ret->param[i].key = append(&at, from->param[i].key);
        ret->param[i].value = append(&at, from->param[i].value);
    }
}

const char *request_get(const struct request *r, const char *key)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->param[i].key, key) == 0)
            return r->param[i].value;
    return NULL;
}

size_t request_all(const struct request *r, const char *key, const char **ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->param[i].key, key) != 0)
            continue;
        if (n < max)
            ret[n] = r->param[i].value;
        n++;
    }
    return n;
}

int request_u64(const struct request *r, const char *key, uint64_t *ret)
{
    const char *text = request_get(r, key);

    return text != NULL && text_u64(text, ret);
}
