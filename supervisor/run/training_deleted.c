/* The run directory is deleted while the run is live.
 *
 * The run notices it at the next tick or checkpoint, stops at the next round boundary, and
 * fails, because no command can find its files any more. With args->rescue, its last
 * checkpoint is written into a new run in that folder, with the configuration, the journal
 * and the experience log, whose descriptor is still open, so that `brood resume` can
 * continue it; and with the tags and the provenance. */
#include "supervisor/run/training_internal.h"

#include "common/ckpt/atomic_file.h"
#include "common/log/log.h"

#include <string.h>

enum { TEXT_MAX_BYTES = 1 << 20 };

/* Creates a run of the same name, or of that name with a number. */
static int make_rescue(struct training *t, struct err *err)
{
    const char *dir = t->args->rescue, *name = run_dir_name(t->args->dir);
    const mode_t mode = (mode_t)t->config->run.mode;
    int rc = run_dir_create(&t->rescue.dir, dir, name, name, 0, mode, err);

    if (rc == ERR_EXISTS)
        rc = run_dir_create(&t->rescue.dir, dir, NULL, name, 0, mode, err);
    if (rc == 0)
        rc = run_dir_write_config(t->rescue.dir, &t->changes.wanted, err);
    if (rc == 0 && t->args->policies != NULL)
        rc = policies_keep(t->args->policies, t->rescue.dir, err);
    if (rc < 0) {
        run_dir_free(t->rescue.dir);
        t->rescue.dir = NULL;
    }
    return rc;
}

static void begin_rescue(struct training *t)
{
    struct err err = {0};

    if (t->args->rescue == NULL)
        return;
    if (make_rescue(t, &err) < 0) {
        training_log_error(t, "--rescue: %s", err.msg);
        return;
    }
    run_saver_redirect(t->saver, run_dir_file(t->rescue.dir, "checkpoints"),
                       run_dir_file(t->rescue.dir, "experience"));
}

/* Reads a file of the run directory. If that fails, `text` remains: the file may have been
 * deleted just before the directory. */
static void read_text(const struct training *t, const char *name, struct wbuf *text)
{
    struct wbuf now = {0};

    if (wbuf_read_file(&now, run_dir_file(t->args->dir, name), TEXT_MAX_BYTES, NULL) <
        0) {
        wbuf_done(&now);
        return;
    }
    wbuf_done(text);
    *text = now;
}

static void write_text(struct training *t, const char *name, struct wbuf *text)
{
    struct err err = {0};

    if (t->rescue.dir != NULL && text->len > 0 &&
        atomic_file_write(run_dir_file(t->rescue.dir, name), text->data, text->len, 1,
                          &err) < 0)
        log_warn("%s", err.msg);
    wbuf_done(text);
}

/* A replay has no saver, and nothing there to lose. */
void training_check_dir(struct training *t)
{
    const char *path = run_dir_path(t->args->dir);

    if (t->rescue.is_needed || t->saver == NULL)
        return;
    if (!run_dir_is_deleted(t->args->dir)) {
        if (t->args->rescue != NULL)
            read_text(t, "tags", &t->rescue.tags);
        if (t->args->rescue != NULL && t->rescue.provenance.len == 0)
            read_text(t, "provenance", &t->rescue.provenance);
        return;
    }
    t->rescue.is_needed = 1;
    begin_rescue(t);
    training_event(t, DELETED);
    if (t->rescue.dir != NULL)
        training_log_error(t,
                           "%s was deleted: the run ends, its last checkpoint goes to %s",
                           path, run_dir_path(t->rescue.dir));
    else
        training_log_error(t, "%s was deleted: the run ends", path);
    training_feed(t, LIFE_EV_DELETED, NULL);
}

int training_rescue(struct training *t)
{
    return t->rescue.dir != NULL && !run_saver_is_redirected(t->saver) &&
           run_saver_repeat(t->saver);
}

void training_fail_if_deleted(struct training *t)
{
    struct training_result *r = t->result;
    const char *path = run_dir_path(t->args->dir);

    if (!t->rescue.is_needed)
        return;
    r->checkpoint_step = -1; /* the run's own path has no checkpoint any more */
    if (r->end == TRAINING_DONE || r->end == TRAINING_STOPPED)
        r->end = TRAINING_FAILED;
    if (t->failure.code < 0)
        return;
    if (t->rescue.step >= 0)
        (void)err_set(&t->failure, ERR_IO,
                      "the run directory was deleted; the checkpoint of step %lld was "
                      "rescued: `brood resume %s` continues from it",
                      (long long)t->rescue.step, run_dir_path(t->rescue.dir));
    else
        (void)err_set(
            &t->failure, ERR_IO,
            "the run directory was deleted: the checkpoint of step %llu is lost "
            "with all others (%s): %s",
            (unsigned long long)training_steps(t),
            t->args->rescue != NULL ? "it could not be rescued"
                                    : "--rescue DIR would have saved it",
            path);
}

void training_end_rescue(struct training *t)
{
    struct err err = {0};

    if (t->rescue.dir != NULL &&
        journal_copy(t->journal, run_dir_file(t->rescue.dir, "journal"), &err) < 0)
        log_warn("%s", err.msg);
    write_text(t, "tags", &t->rescue.tags);
    write_text(t, "provenance", &t->rescue.provenance);
    run_dir_free(t->rescue.dir);
    t->rescue.dir = NULL;
}
