/* Continuing after an interruption: from the newest checkpoint in the folder, or from the
 * start if there is none. Here one program is interrupted three times. */
#include "agent/nn/nn.h"
#include "agent/saver/saver.h"
#include "tests/examples/example.h"

enum { STEPS_PER_RUN = 20, SAVE_EVERY = 10 };

static void train(void)
{
    struct graph *g = graph_new();
    struct saver_options o = SAVER_DEFAULTS;
    struct variable *step = get_or_create_global_step(g);
    struct variable *w = variable_new(g, constant_f32(g, 0, NULL), "w", 0);
    const int64_t one = 1;
    struct tensor value = tensor_scalar_i64(&one);
    struct operation *updates[2] = {
        variable_assign_add(w, constant_f32(g, 0.5f, NULL), NULL).op,
        variable_assign_add(step, constant(g, &value, NULL), NULL).op};
    struct operation *update = group(g, updates, 2, NULL);
    struct operation *init = global_variables_initializer(g, NULL);
    struct saver_save_options with_step = {.step_tensor = step->read};
    struct ckpt_state known = {0};
    struct saver *saver;
    struct session *s;
    char *newest = NULL;

    o.max_to_keep = 2;
    must(saver_new(&saver, g, &o, &error));
    must(session_new(&s, g, NULL, &error));
    must(latest_checkpoint(&newest, "./trained", NULL, &error));
    if (newest != NULL) {
        must(saver_restore(saver, s, newest, &error));
        /* a new Saver does not know the existing checkpoints; they count for max_to_keep,
         * too */
        must(get_checkpoint_state(&known, "./trained", NULL, &error));
        saver_recover_last_checkpoints(saver, (const char *const *)known.all,
                                       known.n_all);
    } else {
        run(s, init);
    }
    (void)printf("from %s:", newest != NULL ? newest : "the start");
    print(s, "", w->read);
    for (int i = 1; i <= STEPS_PER_RUN; i++) {
        run(s, update);
        if (i % SAVE_EVERY == 0)
            must(saver_save(saver, s, "./trained/my_model", &with_step, NULL, &error));
    }
    free(newest);
    ckpt_state_done(&known);
    saver_free(saver);
    session_free(s);
    graph_free(g);
}

int main(void)
{
    for (int i = 0; i < 3; i++)
        train();
    return 0;
}
