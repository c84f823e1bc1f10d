/* checkpoints.h - TensorFlow's own checkpoints, for tests that compare with them. */
#ifndef TESTS_SUPPORT_CHECKPOINTS_H
#define TESTS_SUPPORT_CHECKPOINTS_H

#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <fts.h>
#include <string.h>

/* Prints a message if there are none. */
static inline int test_has_real_checkpoints(void)
{
    if (test_shared_dir() != NULL)
        return 1;
    (void)printf("# SKIPPED comparisons with TensorFlow's own checkpoints: not here\n");
    return 0;
}

struct test_paths {
    char **path;
    size_t n;
};

static inline void test_paths_free(struct test_paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->path[i]);
    free(p->path);
}

/* Every `.index` below the developers' folder of checkpoints; at least one. */
static inline struct test_paths test_real_indexes(void)
{
    struct test_paths found = {0};
    char *dir = xasprintf("%s/data/tf-checkpoints", test_shared_dir());
    FTS *tree = fts_open((char *[]){dir, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *e;

    while ((e = fts_read(tree)) != NULL) {
        size_t len = strlen(e->fts_path);

        if (e->fts_info != FTS_F || len < 6 ||
            strcmp(e->fts_path + len - 6, ".index") != 0)
            continue;
        found.path = xreallocarray(found.path, found.n + 1, sizeof(*found.path));
        found.path[found.n++] = xstrdup(e->fts_path);
    }
    (void)fts_close(tree);
    free(dir);
    ck_assert_uint_ge(found.n, 1);
    return found;
}

static inline unsigned char *test_read_file(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data;

    ck_assert_msg(f != NULL, "%s", path);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    *ret_len = (size_t)ftell(f);
    rewind(f);
    data = xmalloc(*ret_len + 1);
    ck_assert_uint_eq(fread(data, 1, *ret_len, f), *ret_len);
    (void)fclose(f);
    return data;
}

#endif
