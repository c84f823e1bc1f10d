/* Writing, comparing and listing the values that the tables describe. */
#include "common/config/schema.h"

#include "common/config/schema_internal.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const void *at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

int schema_is_given(const struct schema *s, const void *root, const void *base,
                    const struct field *f)
{
    if (s->applies != NULL && !s->applies(root, base, f))
        return 0;
    if (f->type == FIELD_OPTIONAL_MAP)
        return memcmp(at_const(base, f->has_offset), &(int){0}, sizeof(int)) != 0;
    return !schema_is_empty(f, at_const(base, f->offset));
}

/* is: the section that is written; but: one whose values need not be. */
static int write_section(const struct section *is, const struct section *but, int indent,
                         FILE *out);

/* Returns 0 if it has no values to write. */
static int write_map(const char *key, const struct section *is, const struct section *but,
                     int indent, FILE *out)
{
    struct xstream text;
    FILE *inner = xstream_begin(&text);
    int any;

    any = write_section(is, but, indent + 2, inner);
    (void)xstream_end(&text);
    if (any)
        (void)fprintf(out, "%*s%s:\n%s", indent, "", key, text.text);
    free(text.text);
    return any;
}

/* Whether a zero, which counts as not given, has to be written: the other section gives another
 * value. */
static int is_taken_back(const struct field *f, const struct section *but,
                         const struct field *g)
{
    return g != NULL && f->flags & FIELD_SKIP_ZERO &&
           (f->type == FIELD_BOOL || f->type == FIELD_ENUM) &&
           schema_is_given(but->schema, but->root, but->base, g);
}

static int write_section(const struct section *is, const struct section *but, int indent,
                         FILE *out)
{
    int any = 0;

    for (size_t i = 0; i < is->schema->n; i++) {
        const struct field *f = &is->schema->fields[i], *g = NULL;
        const void *p = at_const(is->base, f->offset);
        /* the value that a reader would use if this one were not written */
        const void *q = NULL;

        if (but->base != NULL)
            g = schema_counterpart(is->schema, f, but->schema);
        if (!schema_is_given(is->schema, is->root, is->base, f) &&
            !is_taken_back(f, but, g))
            continue;
        if (g != NULL && schema_is_given(but->schema, but->root, but->base, g))
            q = at_const(but->base, g->offset);
        if (f->type == FIELD_MAP || f->type == FIELD_OPTIONAL_MAP) {
            const struct section map = {schema_below(f, is->root), is->root, p};
            const struct section but_map = {q != NULL ? schema_below(g, but->root) : NULL,
                                            but->root, q};

            if (write_map(f->key, &map, &but_map, indent, out)) {
                any = 1;
            } else if (f->type == FIELD_OPTIONAL_MAP && q == NULL) {
                (void)fprintf(out, "%*s%s: {}\n", indent, "", f->key);
                any = 1;
            }
        } else if (q == NULL || !schema_same_value(f, p, q)) {
            (void)fprintf(out, "%*s%s: ", indent, "", f->key);
            schema_write_value(f, p, out);
            (void)fputc('\n', out);
            any = 1;
        }
    }
    return any;
}

int schema_write_map(const char *key, const struct schema *s, const void *root,
                     const void *but, int indent, FILE *f)
{
    return write_map(key, &(struct section){s, root, root},
                     &(struct section){s, but, but}, indent, f);
}

int schema_write(const struct schema *s, const void *root, const void *but, int indent,
                 FILE *f)
{
    return write_section(&(struct section){s, root, root}, &(struct section){s, but, but},
                         indent, f);
}

/* was, value: NULL if absent. */
static void report(const struct field *f, const char *path, const void *was,
                   const void *value, schema_difference_fn fn, void *ctx)
{
    char *text = value != NULL ? schema_text_of(f, value) : xstrdup("");

    fn(ctx, &(struct schema_difference){f, path, text, was, value});
    free(text);
}

/* The two sections that are compared, at one path. */
struct pair {
    const char *path;
    struct section was, is;
    schema_difference_fn fn;
    void *ctx;
};

static void compare_sections(const struct pair *c);

/* Compares the values of a key; f or g NULL: that section's table has none. */
static void compare_fields(const struct pair *c, const struct field *f,
                           const struct field *g)
{
    const struct field *either = g != NULL ? g : f;
    const void *p = f != NULL ? at_const(c->was.base, f->offset) : NULL;
    const void *q = g != NULL ? at_const(c->is.base, g->offset) : NULL;
    const int was_there =
        f != NULL && schema_is_given(c->was.schema, c->was.root, c->was.base, f);
    const int is_there =
        g != NULL && schema_is_given(c->is.schema, c->is.root, c->is.base, g);
    const struct schema *below =
        schema_below(either, g != NULL ? c->is.root : c->was.root);
    char child_path[PATH_MAX_BYTES];
    struct pair child = *c;

    if (was_there == is_there &&
        (!is_there || (below == NULL && schema_same_value(either, p, q))))
        return;
    schema_join_path(child_path, c->path, either->key);
    if (was_there != is_there || below == NULL) {
        report(either, child_path, was_there ? p : NULL, is_there ? q : NULL, c->fn,
               c->ctx);
        return;
    }
    child.path = child_path;
    child.was.schema = schema_below(f, c->was.root);
    child.was.base = p;
    child.is.schema = below;
    child.is.base = q;
    compare_sections(&child);
}

static void compare_sections(const struct pair *c)
{
    for (size_t i = 0; i < c->was.schema->n; i++) {
        const struct field *f = &c->was.schema->fields[i];

        compare_fields(c, f, schema_counterpart(c->was.schema, f, c->is.schema));
    }
    for (size_t i = 0; c->is.schema != c->was.schema && i < c->is.schema->n; i++) {
        const struct field *g = &c->is.schema->fields[i];

        if (schema_counterpart(c->is.schema, g, c->was.schema) == NULL)
            compare_fields(c, NULL, g);
    }
}

void schema_compare(const struct schema *s, const char *path, const void *was,
                    const void *is, schema_difference_fn fn, void *ctx)
{
    compare_sections(&(struct pair){
        .path = path, .was = {s, was, was}, .is = {s, is, is}, .fn = fn, .ctx = ctx});
}

static void follow(const struct section *was, const struct section *is,
                   const struct schema *s, const void *root, void *section)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct field *g = schema_counterpart(s, f, was->schema);
        const struct field *h = schema_counterpart(s, f, is->schema);
        const struct schema *below = schema_below(f, root);
        void *dst = (char *)section + f->offset;
        const void *p, *q;

        if (g == NULL || h == NULL)
            continue;
        p = at_const(was->base, g->offset);
        q = at_const(is->base, h->offset);
        if (below != NULL)
            follow(&(struct section){schema_below(g, was->root), was->root, p},
                   &(struct section){schema_below(h, is->root), is->root, q}, below, root,
                   dst);
        else if (schema_same_value(f, p, dst))
            memcpy(dst, q, schema_value_size(f->type));
    }
}

void schema_follow(const struct schema *s, const void *was, const void *is, void *section)
{
    follow(&(struct section){s, was, was}, &(struct section){s, is, is}, s, section,
           section);
}

char *schema_bounds_text(const struct field *field)
{
    char list[LIST_MAX_BYTES];

    if (field->type == FIELD_ENUM) {
        schema_join_choices(list, sizeof(list), field->names,
                            schema_count_names(field->names));
        return xstrdup(list);
    }
    if (field->type == FIELD_I64 || field->type == FIELD_F64)
        return isinf(field->max) ? xasprintf("from %.15g", field->min)
                                 : xasprintf("%.15g to %.15g", field->min, field->max);
    return xstrdup(field->type == FIELD_BOOL ? "true or false" : "");
}

void schema_print_doc(const struct field *field, FILE *f)
{
    (void)fputs(field->doc, f);
    if (field->type == FIELD_ENUM) {
        char *choices = schema_bounds_text(field);

        (void)fprintf(f, " (%s)", choices);
        free(choices);
    }
}

void schema_print_commented(const char *line, const struct field *field, int column,
                            FILE *f)
{
    if (field == NULL || field->doc == NULL) {
        (void)fprintf(f, "%s\n", line);
        return;
    }
    (void)fprintf(f, "%-*s # ", column, line);
    schema_print_doc(field, f);
    (void)fputc('\n', f);
}

void schema_print(const struct schema *s, const char *path, FILE *out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct schema *below = schema_below(f, NULL);
        char child_path[PATH_MAX_BYTES];

        schema_join_path(child_path, path, f->key);
        if (below != NULL && f->type != FIELD_OPTIONAL_MAP) {
            schema_print(below, child_path, out);
            continue;
        }
        (void)fprintf(out, "  %-42s %-10s ", child_path,
                      f->default_text != NULL ? f->default_text : "");
        schema_print_doc(f, out);
        (void)fputc('\n', out);
        if (f->flags & FIELD_LISTED)
            schema_print(below, child_path, out);
    }
}
