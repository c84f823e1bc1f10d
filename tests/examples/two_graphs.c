/* Two graphs and two sessions: each has its own names, collections and values. */
#include "agent/nn/nn.h"
#include "tests/examples/example.h"

struct model {
    struct graph *g;
    struct session *s;
    struct variable *w;
    struct operation *step;
};

static void model_init(struct model *m, double start)
{
    const struct initializer init = constant_initializer(start);

    m->g = graph_new();
    m->w = get_variable(m->g, "w", DT_FLOAT, &SHAPE(1), &init, 0);
    m->step = variable_assign_add(m->w, m->w->read, NULL).op; /* doubles it */
    must(session_new(&m->s, m->g, NULL, &error));
    run(m->s, global_variables_initializer(m->g, NULL));
}

static void model_done(struct model *m)
{
    session_free(m->s);
    graph_free(m->g);
}

int main(void)
{
    struct model a, b;
    struct tensor t = TENSOR_NONE;

    model_init(&a, 1);
    model_init(&b, 10);
    run(a.s, a.step);
    run(a.s, a.step);
    run(b.s, b.step);
    print(a.s, "first", a.w->read);
    print(b.s, "second", b.w->read);
    (void)printf("variables %zu %zu\n", collection_get(a.g, GLOBAL_VARIABLES, NULL, NULL),
                 collection_get(b.g, GLOBAL_VARIABLES, NULL, NULL));

    /* fetching a tensor of the other graph is an error that names it */
    const struct run_args wrong = {.fetches = &b.w->read, .n_fetches = 1};
    if (session_run(a.s, &wrong, &t, &error) < 0)
        (void)printf("%s\n", error.msg);

    model_done(&a);
    model_done(&b);
    return 0;
}
