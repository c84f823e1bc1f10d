#include "common/log/log.h"
#include "supervisor/cli/cli.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/proc/detach.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/stall.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/rundir/run_dir.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes a supervisor's death into the journal; runs in the keeper. */
static void journal_death(const struct keeper_death *d)
{
    char text[128], name[SIGNAL_NAME_BYTES];

    (void)signal_name(d->signum, name);
    if (d->resumes)
        (void)snprintf(text, sizeof(text), "event=supervisor-exit pid=%d signal=%s",
                       (int)d->pid, name);
    else
        (void)snprintf(text, sizeof(text), "event=end state=%s code=%d pid=%d signal=%s",
                       d->is_cut_off ? "\"cut off\"" : "killed", d->exit_code,
                       (int)d->pid, name);
    journal_append(d->path, text, 1);
}

/* Likewise that it does not go on, or does again; runs in a child of the keeper. */
static void journal_stall(const struct keeper_stall *s)
{
    char text[96 + STALL_TEXT_BYTES];

    if (s->why != NULL)
        (void)snprintf(text, sizeof(text),
                       "event=supervisor-stalls pid=%d since=%s why=\"%s\"", (int)s->pid,
                       s->since, s->why);
    else
        (void)snprintf(text, sizeof(text), "event=supervisor-goes-on pid=%d since=%s",
                       (int)s->pid, s->since);
    journal_append(s->path, text, 0);
}

static void print_report(const struct cli *cli, const struct detach_report *r)
{
    char *name = run_dir_name_of(r->path);
    struct json j = {0};

    if (cli->json) {
        msg_json_begin_event(&j, "detached");
        json_put_str(&j, "run", name);
        json_put_i64(&j, "pid", r->supervisor);
        json_put_i64(&j, "keeper_pid", r->keeper);
        json_put_str(&j, "path", r->path);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s: running as pid %d, keeper %d; `brood attach %s` shows it\n",
                     name, (int)r->supervisor, (int)r->keeper, name);
    }
    free(name);
}

/* Returns 1 in the new process, 0 in the launcher when it may exit. */
static int detach(struct cli *cli, int *ret_fd, int *ret_code)
{
    static struct detach_report report;
    struct keeper_task again;
    struct err err;
    int rc;

    cli->is_detached = 1;
    if (keeper_resume_task(&again))
        return 1; /* the last supervisor has detached already */
    rc = detach_split(ret_fd, &report, ret_code, &err);
    if (rc < 0)
        *ret_code = cli_fail(cli, CLI_FAILED, &err);
    else if (rc == 0 && report.supervisor != 0)
        print_report(cli, &report);
    return rc > 0;
}

int cli_keep(struct cli *cli, int want_detach, int *ret_code)
{
    struct keeper_args args = {.argv = cli->argv,
                               .who = cli->command->name,
                               .report_fd = -1,
                               .on_death = journal_death,
                               .on_stall = journal_stall};
    char now[LOG_TIME_BYTES];
    struct err err;
    int rc;

    if (want_detach && !detach(cli, &args.report_fd, ret_code))
        return 0;
    (void)log_time(
        now); /* its first call allocates, which must not happen in the keeper */
    rc = keeper_split(&cli->keeper, &args, ret_code, &err);
    if (rc < 0)
        *ret_code = cli_fail(cli, CLI_FAILED, &err);
    return rc > 0;
}
