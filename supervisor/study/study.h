/* study.h - what a study searches: its file, and the trials that follow from it.
 *
 *     base: ../configs/simple_spread.yaml
 *     search:
 *       defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.01]}
 *       defaults.discount: [0.9, 0.95, 0.99]
 *     method: {asha: {rungs: [50000, 150000, 450000], keep: 0.33}}
 *     metric: {column: eval/team_return/agent, mode: max, last: 3}
 *     trials: 24
 *     seeds: [1, 2]
 *
 * base     a configuration, relative to the file; every trial is this run with other values.
 * search   KEY: values. A list, or {choice: [...]}: one of them. {uniform: [low, high]},
 *          {log_uniform: [low, high]}: a number, rounded to six digits; {int: [low, high]}: a
 *          whole number, both ends included. "KEY, KEY": the same value for both.
 * method   grid: every combination of choices. random: `trials` draws. asha: successive
 *          halving of `trials` draws or, without `trials`, of the grid; see halving.h.
 *          pbt: population based training, see population.h:
 *            {pbt: {population: 8, interval: 50000, rounds: 10}}, and if wanted
 *            quantile: 0.25, resample: 0.25, factors: [0.8, 1.25], keep: false
 * metric   mean of the last `last` values (1) of a column of progress.csv; without a column,
 *          the team's return in evaluations or, without any, in training. mode: max or min.
 * seeds    of the runs ([1]); a trial's value is the mean over its seeds. With pbt each member
 *          has a run for every seed, and all of them change their settings together. seed: of
 *          the draws (0).
 * limits   cores: processors that a trial may use at a time. memory: of all processes of a run
 *          together (`run --memory-limit`); one that takes more has failed.
 * Draws    a pure function of seed, key and the trial's number: more trials do not change the
 *          first ones.
 * Source   Bergstra and Bengio 2012, Random search for hyper-parameter optimization
 */
#ifndef SUPERVISOR_STUDY_STUDY_H
#define SUPERVISOR_STUDY_STUDY_H

#include "common/err/err.h"
#include "common/mem/arena.h"
#include "supervisor/study/rungs.h"

#include <stddef.h>
#include <stdint.h>

#define STUDY_MAX_KEYS   32
#define STUDY_MAX_SEEDS  64
#define STUDY_MAX_RUNGS  16
#define STUDY_MAX_TRIALS 10000
#define STUDY_MAX_ROUNDS 10000

enum study_method { STUDY_GRID, STUDY_RANDOM, STUDY_ASHA, STUDY_PBT };
enum study_values { STUDY_CHOICE, STUDY_UNIFORM, STUDY_LOG_UNIFORM, STUDY_INT };

struct study_key {
    const char *path; /* "KEY" or "KEY, KEY", as it is written */
    int line;
    enum study_values values;
    size_t n; /* choices */
    const char **choice;
    double low, high;
};

struct study {
    struct arena arena; /* owns all texts */
    const char *file;
    const char *base; /* the configuration's path */
    /* [n_sets] "KEY=VALUE", which the base has in all trials; borrowed */
    const char *const *sets;
    size_t n_sets;
    /* YAML: the base's values, merged over those that it extends, and sets */
    const char *base_text;
    size_t n_keys, n_paths; /* a key may set several paths */
    struct study_key key[STUDY_MAX_KEYS];
    enum study_method method;
    size_t trials; /* of pbt: members of the population */
    int is_grid;   /* every combination of choices is a trial */
    size_t n_seeds;
    uint64_t seeds[STUDY_MAX_SEEDS];
    uint64_t seed;
    const char *column; /* NULL: the team's return */
    int is_max;
    size_t last;
    size_t n_rungs;
    uint64_t rungs[STUDY_MAX_RUNGS]; /* environment steps, ascending */
    double keep;                     /* part of a rung's trials that continue */
    struct {
        uint64_t interval; /* environment steps of a round */
        size_t rounds;
        double quantile;  /* part of the members that is replaced after a round */
        double resample;  /* probability that a setting is drawn anew */
        double factor[2]; /* that a setting is multiplied by, if it is not drawn anew */
        int keep;         /* the runs of members that were replaced remain */
    } pbt;
    struct rungs passed;  /* of asha: what is known of its folder (study_dir_read) */
    int64_t cores;        /* 0: not limited */
    int64_t memory_bytes; /* 0: not limited */
};

/* Reads and checks a study's file; the configurations of its trials are not checked. sets: n_sets
 * values "KEY=VALUE" that the base gets, in memory of the caller, none of a searched key. On
 * failure *ret is all-zero. ERR_CONFIG with file, line and key; ERR_LIMIT, -errno. */
int study_read(struct study *ret, const char *path, const char *const *sets,
               size_t n_sets, struct err *err);
void study_done(struct study *s);

/* Whether a study that began as `was` can go on as `is`, which may add trials and seeds;
 * with pbt, only rounds, and with grid and random, another metric. `limits` do not matter.
 * ERR_CONFIG names the first other difference. */
int study_check_same(const struct study *was, const struct study *is, struct err *err);

/* The last part of a key's path, which most often tells it from the others; for people. */
const char *study_key_short_name(const struct study_key *k);

/* How often trials are compared: the rungs of asha, otherwise 1. */
size_t study_n_rungs(const struct study *s);
/* The environment steps at which a rung, from 0, ends; 0: at the end of its runs. */
uint64_t study_rung_until(const struct study *s, size_t rung);

/* The value of a key in a trial, from 0, as YAML: "0.001", "[64, 64]"; of pbt, in the first
 * round. In the arena. */
const char *study_value(const struct study *s, size_t trial, size_t key,
                        struct arena *arena);
/* The value of a key for u from [0, 1): uniform u draws it as `search` says. In the arena. */
const char *study_value_at(const struct study_key *k, double u, struct arena *arena);
/* The assignments of a trial, "KEY=VALUE"; returns how many. In the arena; room for
 * STUDY_MAX_SETS. */
#define STUDY_MAX_SETS (4 * STUDY_MAX_KEYS)
size_t study_sets(const struct study *s, size_t trial, const char **ret,
                  struct arena *arena);
/* study_sets of given values, one for each key. */
size_t study_sets_of(const struct study *s, const char *const *values, const char **ret,
                     struct arena *arena);

#endif
