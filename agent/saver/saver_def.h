/* saver_def.h - which nodes of a graph save and restore its variables. */
#ifndef AGENT_SAVER_SAVER_DEF_H
#define AGENT_SAVER_SAVER_DEF_H

struct saver_def {
    const char *filename_tensor; /* "save/Const:0": fed with the prefix */
    const char *save_tensor;     /* "save/control_dependency:0": gives the prefix */
    const char *restore_op;      /* "save/restore_all" */
    int max_to_keep;             /* 0: all */
    int sharded;
    float keep_every_n_hours;
};

#endif
