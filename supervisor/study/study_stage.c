#include "supervisor/study/study_stage.h"

#include "common/mem/xmalloc.h"
#include "supervisor/study/halving.h"

#include <stdlib.h>

void study_stage_next_round(struct study_stage *g)
{
    const size_t rounds = g->study->pbt.rounds;

    g->rung = g->lineage.n < rounds ? g->lineage.n : rounds - 1;
    g->until = lineage_step(g->study, g->rung);
}

int study_stage_begin(struct study_stage *ret, struct study *s, const char *dir,
                      struct err *err)
{
    int rc = study_dir_look(s, dir, err);

    *ret = (struct study_stage){
        .study = s, .dir = dir, .until = study_rung_until(s, 0), .n = s->trials};
    if (rc == 0 && s->method == STUDY_PBT) {
        rc = lineage_read(&ret->lineage, s, dir, err);
        if (rc == 0)
            study_stage_next_round(ret);
    }
    ret->trial = xcalloc(ret->n + 1, sizeof(*ret->trial));
    for (size_t i = 0; i < ret->n; i++)
        ret->trial[i] = i;
    if (rc < 0)
        study_stage_done(ret);
    return rc;
}

void study_stage_done(struct study_stage *g)
{
    lineage_done(&g->lineage);
    free(g->trial);
    *g = (struct study_stage){0};
}

int study_stage_next(struct study_stage *g, const double *value)
{
    size_t *kept;

    if (g->rung + 1 >= study_n_rungs(g->study))
        return 0;
    kept = xcalloc(g->n + 1, sizeof(*kept));
    g->n = halving_keep(g->trial, value, g->n, g->study->keep, g->study->is_max, kept);
    free(g->trial);
    g->trial = kept;
    g->until = study_rung_until(g->study, ++g->rung);
    return 1;
}

size_t study_stage_n_runs(const struct study_stage *g)
{
    return g->n * g->study->n_seeds;
}

struct study_run_id study_stage_id(const struct study_stage *g, size_t run)
{
    const size_t trial = g->trial[run / g->study->n_seeds];

    return (struct study_run_id){trial, run % g->study->n_seeds,
                                 lineage_birth(&g->lineage, g->rung, trial)};
}

struct study_run study_stage_look(const struct study_stage *g, size_t run)
{
    const struct study_run_id id = study_stage_id(g, run);
    struct study_run ret;

    study_run_look(&ret, g->study, g->dir, &id, g->until);
    return ret;
}

double study_stage_value(const struct study_stage *g, size_t i)
{
    const size_t seeds = g->study->n_seeds;
    double sum = 0;

    for (size_t k = i * seeds; k < (i + 1) * seeds; k++) {
        struct study_run run = study_stage_look(g, k);

        sum += run.value;
        study_run_done(&run);
    }
    return sum / (double)seeds;
}
