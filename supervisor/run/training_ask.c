/* What others ask of a run while it lives, besides changes of its configuration. */
#include "supervisor/run/training_internal.h"

const struct agent_table *training_look(const struct training *t,
                                        struct rollout_progress *ret)
{
    *ret = (struct rollout_progress){.state = t->stopping ? "stopping" : "starting"};
    if (t->rollout != NULL)
        rollout_progress(t->rollout, ret);
    return t->agents;
}

const char *training_name(const struct training *t)
{
    return run_dir_name(t->args->dir);
}

static int check_alive(const struct training *t, struct err *err)
{
    if (t->rollout != NULL && !t->stopping)
        return 0;
    return err_set(err, ERR_STATE, "the run is %s",
                   t->stopping ? "stopping" : "starting");
}

int training_ask_checkpoint(struct training *t, struct err *err)
{
    int rc = check_alive(t, err);

    if (rc == 0)
        rollout_request_checkpoint(t->rollout);
    return rc;
}

int training_ask_stop(struct training *t, struct err *err)
{
    int rc = check_alive(t, err);

    if (rc < 0)
        return rc;
    t->result->end = TRAINING_STOPPED;
    journal_write(t->journal, training_steps(t), "stop", NULL);
    rollout_request_stop(t->rollout);
    return 0;
}

int training_respawn_agent(struct training *t, size_t agent, struct err *err)
{
    int rc = check_alive(t, err);

    if (rc == 0 && agent < t->config->n_agents)
        rc = training_apply_waiting(t, agent, err);
    return rc != 0 ? (rc < 0 ? rc : 0) : agent_table_respawn(t->agents, agent, err);
}

int training_drive(struct training *t, size_t agent, const msgpack_object *params,
                   rollout_run_fn fn, void *ctx, void *client, struct err *err)
{
    int rc = check_alive(t, err);

    if (rc < 0)
        return rc;
    if (agent >= t->config->n_agents)
        return err_set(err, ERR_NOT_FOUND, "only agents can be driven");
    return rollout_run(t->rollout, agent, params, fn, ctx, client, err);
}

void training_forget_client(struct training *t, void *client)
{
    if (t->rollout != NULL)
        rollout_forget(t->rollout, client);
}
