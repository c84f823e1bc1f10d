/* Saving v1 and v2, restoring both, and restoring v2 alone. */
#include "agent/nn/nn.h"
#include "agent/saver/saver.h"
#include "tests/examples/example.h"

struct model {
    struct graph *g;
    struct session *s;
    struct variable *v1, *v2;
};

static void model_init(struct model *m)
{
    const struct initializer zero = zeros_initializer();

    m->g = graph_new();
    m->v1 = get_variable(m->g, "v1", DT_FLOAT, &SHAPE(3), &zero, 0);
    m->v2 = get_variable(m->g, "v2", DT_FLOAT, &SHAPE(2), &zero, 0);
    must(session_new(&m->s, m->g, NULL, &error));
}

static void model_done(struct model *m)
{
    session_free(m->s);
    graph_free(m->g);
}

/* tf.train.Saver(vars); no variables named: all */
static struct saver *make_saver(struct model *m, const struct saver_item *items, size_t n)
{
    struct saver_options o = SAVER_DEFAULTS;
    struct saver *saver;

    o.vars = items;
    o.n_vars = n;
    must(saver_new(&saver, m->g, &o, &error));
    return saver;
}

int main(void)
{
    struct model a, b, c;
    struct saver *saver;
    const char *missing[2];

    model_init(&a);
    saver = make_saver(&a, NULL, 0);
    run(a.s, global_variables_initializer(a.g, NULL));
    run(a.s, variable_assign(a.v1, ones(a.g, DT_FLOAT, &SHAPE(3), NULL), NULL).op);
    run(a.s, variable_assign_sub(a.v2, ones(a.g, DT_FLOAT, &SHAPE(2), NULL), NULL).op);
    must(saver_save(saver, a.s, "./model.ckpt", NULL, NULL, &error));
    saver_free(saver);
    model_done(&a);

    model_init(&b); /* no initialisers are run: restoring sets the values */
    saver = make_saver(&b, NULL, 0);
    must(saver_restore(saver, b.s, "./model.ckpt", &error));
    print(b.s, "v1", b.v1->read);
    print(b.s, "v2", b.v2->read);
    saver_free(saver);
    model_done(&b);

    model_init(&c);
    saver = make_saver(&c, &(struct saver_item){"v2", c.v2}, 1);
    must(saver_restore(saver, c.s, "./model.ckpt", &error));
    (void)report_uninitialized_variables(c.g, c.s, missing, 2);
    (void)printf("without a value: %s\n", missing[0]);
    run(c.s, c.v1->initializer);
    print(c.s, "v1", c.v1->read);
    print(c.s, "v2", c.v2->read);
    saver_free(saver);
    model_done(&c);
    return 0;
}
