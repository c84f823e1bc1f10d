/* seeds.h - the value of --seeds: numbers and ranges of them, such as "1-5,8", as sbatch's
 * --array has them. */
#ifndef SUPERVISOR_CLI_SEEDS_H
#define SUPERVISOR_CLI_SEEDS_H

#include "supervisor/cli/cli.h"

enum { SEEDS_MAX = 1000 };

struct seeds {
    uint64_t seed
        [SEEDS_MAX]; /* each at most INT64_MAX, in the order in which they are given */
    size_t n;
};

/* Replaces *to, a struct seeds. Returns 0, or CLI_USAGE after reporting that the text is no
 * such list, is longer than SEEDS_MAX or has a seed twice: `take` of a cli_option. */
int seeds_take(const struct cli *cli, const char *text, void *to);

#endif
