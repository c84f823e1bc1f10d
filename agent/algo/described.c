/* The descriptions of the registry's algorithms, made once (algorithms.h). */
#include "agent/algo/algo.h"
#include "common/err/check.h"

#include <string.h>

enum { MAX_ALGORITHMS = 64 };

/* The rows that the algorithm lists, in the table's order. */
static void describe(struct algorithm_info *ret, struct field *rows,
                     const struct algo_ops *ops)
{
    struct err err = {0};
    size_t n = 0;

    *ret = ops->about->info;
    ret->name = ops->name;
    for (size_t i = 0; i < algorithm_settings_schema.n; i++) {
        const struct field *f = &algorithm_settings_schema.fields[i];
        const char *const *key = ops->about->settings;

        while (*key != NULL && strcmp(*key, f->key) != 0)
            key++;
        if (*key != NULL)
            rows[n++] = *f;
    }
    CHECK(algorithm_place_settings(rows, n, &err) == 0, "%s: %s", ops->name, err.msg);
    ret->settings = (struct schema){.fields = rows, .n = n};
}

int algorithm_load(const struct algorithm_info **ret, const char *hash,
                   const char *folder, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "an agent knows no programs");
}

const struct algorithm_info *algorithm_at(size_t i)
{
    static struct algorithm_info all[MAX_ALGORITHMS];
    static struct field rows[MAX_ALGORITHMS][ALGORITHM_MAX_SETTINGS];
    const struct algo_ops *ops = algo_at(i);

    if (ops == NULL)
        return NULL;
    CHECK(i < MAX_ALGORITHMS && algorithm_settings_schema.n <= ALGORITHM_MAX_SETTINGS);
    if (all[i].name == NULL)
        describe(&all[i], rows[i], ops);
    return &all[i];
}
