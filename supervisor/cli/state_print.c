#include "supervisor/cli/state_print.h"

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/ckpt_state.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void print_line(const char *dir, const char *what, const char *path)
{
    char *prefix = ckpt_resolve(dir, path);

    (void)printf("%s: \"%s\" %s %s\n", what, path,
                 ckpt_kind_of(prefix) != CKPT_NONE ? "is" : "is missing:", prefix);
    free(prefix);
}

static void put_place(struct json *j, const char *dir, const char *path)
{
    char *prefix = ckpt_resolve(dir, path);

    json_object(j);
    json_key(j, "path");
    json_str(j, path);
    json_key(j, "prefix");
    json_str(j, prefix);
    json_key(j, "exists");
    json_bool(j, ckpt_kind_of(prefix) != CKPT_NONE);
    json_close(j);
    free(prefix);
}

static void print_json(const char *dir, const struct ckpt_state *s)
{
    struct json j = {0};
    size_t len;

    json_begin(&j);
    json_object(&j);
    json_key(&j, "newest");
    put_place(&j, dir, s->newest);
    json_key(&j, "all");
    json_array(&j);
    for (size_t i = 0; i < s->n_all; i++)
        put_place(&j, dir, s->all[i]);
    json_close(&j);
    json_close(&j);
    (void)fputs(json_line(&j, &len), stdout);
    json_done(&j);
}

/* The folder of a file: all before the last slash. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return xstrdup(".");
    return xstrndup(path, slash > path ? (size_t)(slash - path) : 1);
}

int state_print(const char *path, int json, struct err *err)
{
    struct ckpt_state s;
    struct stat st;
    const int is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    char *dir = is_file ? folder_of(path) : xstrdup(path);
    int rc =
        is_file ? ckpt_state_load_file(&s, path, err) : ckpt_state_load(&s, path, err);

    if (rc == 0 && s.newest[0] == '\0') {
        rc = err_set(err, ERR_FORMAT, "%s names no checkpoint", path);
        ckpt_state_done(&s);
    } else if (rc == 0) {
        if (json)
            print_json(dir, &s);
        else
            print_line(dir, "newest", s.newest);
        for (size_t i = s.n_all; !json && i > 0; i--)
            print_line(dir, "kept", s.all[i - 1]);
        ckpt_state_done(&s);
    }
    free(dir);
    return rc;
}
