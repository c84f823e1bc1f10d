/* env_params.h - env.params of one key, for tests that write no file. */
#ifndef TESTS_SUPPORT_ENV_PARAMS_H
#define TESTS_SUPPORT_ENV_PARAMS_H

#include "common/config/yaml_tree.h"

struct env_params {
    struct yaml_node map, value, *child[1];
};

/* The map {key: text}; it lives as long as *p, and borrows the texts. */
static inline const struct yaml_node *env_params(struct env_params *p, const char *key,
                                                 const char *text)
{
    p->value = (struct yaml_node){
        .kind = YAML_SCALAR, .place = "test", .key = key, .text = text};
    p->child[0] = &p->value;
    p->map =
        (struct yaml_node){.kind = YAML_MAP, .place = "test", .n = 1, .child = p->child};
    return &p->map;
}

#endif
