/* Loading a model from its files alone: import the .meta, restore, fetch x:0 by its
 * name. */
#include "agent/saver/metagraph_import.h"
#include "agent/saver/saver.h"
#include "tests/examples/example.h"

/* Stands for another program, which builds and saves a model. */
static void save_model(void)
{
    struct graph *g = graph_new();
    struct saver_options o = SAVER_DEFAULTS;
    struct variable *w = variable_new(g, constant_f32(g, 20, NULL), "w", 0);
    struct saver *saver;
    struct session *s;

    (void)binary(g, "Add", w->read, constant_f32(g, 22, NULL), "x");
    must(saver_new(&saver, g, &o, &error));
    must(session_new(&s, g, NULL, &error));
    run(s, w->initializer);
    must(saver_save(saver, s, "./model", NULL, NULL, &error));
    saver_free(saver);
    session_free(s);
    graph_free(g);
}

int main(void)
{
    struct graph *g = graph_new();
    struct saver *saver;
    struct session *s;
    struct output x;

    save_model();
    must(import_meta_graph(&saver, g, "./model.meta", NULL, &error));
    must(session_new(&s, g, NULL, &error));
    must(saver_restore(saver, s, "./model", &error));
    must(graph_tensor(g, "x:0", &x, &error));
    print(s, "x:0", x);
    saver_free(saver);
    session_free(s);
    graph_free(g);
    return 0;
}
