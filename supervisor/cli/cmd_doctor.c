/* `brood doctor`: looks at the machine, and tries an agent. */
#include "supervisor/ask/describe.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/doctor.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"
#include "supervisor/run/trial.h"

#include <stdio.h>
#include <string.h>

enum { MAX_AGENTS = 100000 };

struct options {
    long long n_agents;
};

static const char *const level_names[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_BAD] = "bad"};

/* Starts an agent's process, as `brood check` does. runs_dir "/": doctor_judge looks at
 * the disk of the runs itself. */
static void try_agent(struct doctor_readings *r)
{
    static const char text[] =
        "env: {id: simple}\nexperience: {capacity: 1000, batch_size: "
        "8}\nrun: {env_steps: 1000}\n";
    struct trial trial = {.runs_dir = "/"};
    const struct config_options options = {.env_names = env_agent_names,
                                           .describe = describe_program,
                                           .try_agents = trial_agents,
                                           .try_ctx = &trial};
    struct run_config c;
    struct err err = {0};

    if (run_config_parse(&c, text, strlen(text), "doctor", &options, &err) == 0)
        run_config_done(&c);
    else
        (void)snprintf(r->agent, sizeof(r->agent), "%.199s", err_cause(&err));
}

static void print_finding(const struct cli *cli, const struct doctor_finding *f)
{
    struct json j = {0};

    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "check", f->check);
        json_put_str(&j, "state", level_names[f->level]);
        json_put_str(&j, "found", f->found);
        json_put_str(&j, "advice", f->advice[0] != '\0' ? f->advice : NULL);
        json_print(&j, stdout);
    } else if (!cli->quiet || f->level == DOCTOR_BAD) {
        (void)printf("%-4s  %-19s  %s%s%s\n", level_names[f->level], f->check, f->found,
                     f->advice[0] != '\0' ? "; " : "", f->advice);
    }
}

static int run_doctor(struct cli *cli, void *values, int argc, char **argv)
{
    struct doctor_finding findings[DOCTOR_MAX_FINDINGS];
    struct doctor_readings readings;
    const struct options *o = values;
    size_t n;
    int code = CLI_DONE;

    if (argc > 0)
        return cli_usage(cli, "expected no arguments");
    doctor_read(&readings, cli->runs_dir);
    try_agent(&readings);
    n = doctor_judge(&readings, (size_t)o->n_agents, findings);
    for (size_t i = 0; i < n; i++) {
        if (findings[i].level == DOCTOR_BAD)
            code = CLI_FAILED;
        print_finding(cli, &findings[i]);
    }
    return code;
}

static const struct cli_option options[] = {
    {"agents", "N", "judge limits for a run of N agents (16)",
     CLI_NUMBER(struct options, n_agents, 1, MAX_AGENTS)},
    {0}};

const struct command cmd_doctor = {
    .name = "doctor",
    .arguments = "[options]",
    .summary = "Look for what this machine lacks, and try an agent",
    .options = options,
    CLI_INTO(struct options, .n_agents = 16),
    .help = "\nA line for each check: ok, note (a run can start, but something costs or\n"
            "lacks) or bad, what was found, and what to do. The exit code is 0 if a run\n"
            "can start, and 1 if not.\n"
            "\nexample: brood doctor --agents 20\n",
    .run = run_doctor,
};
