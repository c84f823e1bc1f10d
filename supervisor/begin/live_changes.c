#include "supervisor/begin/live_changes.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/err/check.h"
#include "common/io/shell_quote.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* The message names the command that begins a new run with the value, and with this run's
 * weights if they fit. */
static int refuse(const struct config_change *c, const char *of, const char *when,
                  struct err *err)
{
    char *run = shell_word(of);
    char *set = xasprintf("%s=%s", c->path, *c->text != '\0' ? c->text : "...");
    char *word = shell_word(set);
    int rc;

    if (c->field != NULL && (c->field->flags & FIELD_OUTPUT) != 0)
        rc = err_set(err, ERR_CONFIG,
                     "%s cannot change %s; `brood stop %s`, then `brood resume %s --set "
                     "%s` continues with it",
                     c->path, when, run, run, word);
    else if (*c->text == '\0') /* removed, or more than one value */
        rc = err_set(err, ERR_CONFIG,
                     "%s cannot change %s; `brood run` with an edited copy of "
                     "%s/config.yaml begins a new one",
                     c->path, when, of);
    else if (c->new_weights)
        rc = err_set(err, ERR_CONFIG,
                     "%s cannot change %s; `brood run %s/config.yaml --set %s` begins a "
                     "new one, with new weights",
                     c->path, when, run, word);
    else
        rc =
            err_set(err, ERR_CONFIG,
                    "%s cannot change %s; `brood run %s/config.yaml --init-from %s --set "
                    "%s` begins a new one with its weights",
                    c->path, when, run, run, word);
    free(word);
    free(set);
    free(run);
    return rc;
}

/* Whether the agent has a variable of one element for each row of an update: it keeps what it
 * computes of them for later stages, in turns or for a ps. */
static int keeps_window(const struct agent_config *a)
{
    const int shares = a->share != NULL && strcmp(a->share, "none") != 0;

    return algorithm_rows(a) == ROWS_WINDOW && (shares || algorithm_of(a)->keeps_window);
}

int live_changes_check_rows(const struct run_config *was, const struct run_config *is,
                            const char *when, struct err *err)
{
    for (size_t i = 0; i < was->n_agents; i++) {
        const struct agent_config *a = &is->agents[i];
        const struct algorithm_bound *b;
        char key[ERR_NAME_BYTES];

        if (algorithm_rows(&was->agents[i]) == algorithm_rows(a))
            continue;
        b = algorithm_rows_differ(&was->agents[i], a);
        CHECK(b != NULL, "%s", a->algorithm);
        (void)snprintf(key, sizeof(key), "settings.%s", b->key);
        return err_set_at(err, ERR_CONFIG, ERR_AT(.agent = a->name, .key = key),
                          "it cannot change between %g and more %s: the agent would have "
                          "another graph",
                          b->above, when);
    }
    for (size_t i = 0; i < was->n_agents; i++)
        if (keeps_window(&is->agents[i]) && run_config_experience(was, i).update_every !=
                                                run_config_experience(is, i).update_every)
            return err_set(
                err, ERR_CONFIG,
                "experience.update_every cannot change %s: %s has a variable of "
                "that size",
                when, is->agents[i].name);
    return 0;
}

int live_changes_check(const struct run_config *was, const struct run_config *is,
                       const char *run, const char *when, struct err *err)
{
    const struct config_change *c;
    struct config_diff d;
    int rc;

    run_config_diff(&d, was, is, 0);
    c = config_diff_find(&d, 1u << CHANGE_RESTART);
    rc = c != NULL ? refuse(c, run, when, err)
                   : live_changes_check_rows(was, is, when, err);
    config_diff_done(&d);
    return rc;
}
