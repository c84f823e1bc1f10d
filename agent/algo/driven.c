#include "agent/algo/driven.h"

const struct stage *driven_stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = 0;
    return NULL;
}

int driven_act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "clients run this agent's graph: it has no policy");
}

int driven_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "clients run this agent's graph: it has no stage '%s'",
                   args->stage->name);
}
