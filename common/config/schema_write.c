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

static int write_section(const struct section *is, const struct section *but, int indent,
                         FILE *out)
{
    int any = 0;

    for (size_t i = 0; i < is->schema->n; i++) {
        const struct field *f = &is->schema->fields[i];
        const struct member m = schema_member(is, f);
        /* what a reader would use if this one were not written */
        struct member b = schema_member_like(but, is->schema, f);

        /* none, and a zero, which counts as not given, take back what the other section
         * gives */
        if (!m.is_given && b.is_given && f->type == FIELD_OPTIONAL_MAP) {
            (void)fprintf(out, "%*s%s: none\n", indent, "", f->key);
            any = 1;
        }
        if (!m.is_given && !(b.is_given && f->flags & FIELD_SKIP_ZERO &&
                             schema_storage(f) == STORED_CHOICE))
            continue;
        if (!b.is_given)
            b = (struct member){0};
        if (schema_storage(f) == STORED_MAP) {
            if (write_map(f->key, &m.inner, &b.inner, indent, out)) {
                any = 1;
            } else if (f->type == FIELD_OPTIONAL_MAP && !b.is_given) {
                (void)fprintf(out, "%*s%s: {}\n", indent, "", f->key);
                any = 1;
            }
        } else if (!b.is_given || !schema_same_value(f, m.value, b.value)) {
            (void)fprintf(out, "%*s%s: ", indent, "", f->key);
            schema_write_value(f, m.value, out);
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

struct comparing {
    schema_difference_fn fn;
    void *ctx;
};

static void compare_sections(const struct comparing *c, const char *path,
                             const struct section *was, const struct section *is);

/* Compares the values of a key, which may be missing in one of the tables. path: of the section. */
static void compare_members(const struct comparing *c, const char *path,
                            const struct member *was, const struct member *is)
{
    const struct field *f = is->field != NULL ? is->field : was->field;
    const int is_map = schema_storage(f) == STORED_MAP;
    char child[PATH_MAX_BYTES], *text;

    if (was->is_given == is->is_given &&
        (!is->is_given || (!is_map && schema_same_value(f, was->value, is->value))))
        return;
    schema_join_path(child, path, f->key);
    if (was->is_given && is->is_given && is_map) {
        compare_sections(c, child, &was->inner, &is->inner);
        return;
    }
    text = is->is_given ? schema_text_of(f, is->value) : xstrdup("");
    c->fn(c->ctx,
          &(struct schema_difference){f, child, text, was->is_given ? was->value : NULL,
                                      is->is_given ? is->value : NULL});
    free(text);
}

static void compare_sections(const struct comparing *c, const char *path,
                             const struct section *was, const struct section *is)
{
    for (size_t i = 0; i < was->schema->n; i++) {
        const struct member old = schema_member(was, &was->schema->fields[i]);
        const struct member new = schema_member_like(is, was->schema, old.field);

        compare_members(c, path, &old, &new);
    }
    for (size_t i = 0; is->schema != was->schema && i < is->schema->n; i++) {
        const struct member new = schema_member(is, &is->schema->fields[i]);

        if (schema_counterpart(is->schema, new.field, was->schema) == NULL)
            compare_members(c, path, &(struct member){0}, &new);
    }
}

void schema_compare(const struct schema *s, const char *path, const void *was,
                    const void *is, schema_difference_fn fn, void *ctx)
{
    compare_sections(&(struct comparing){fn, ctx}, path, &(struct section){s, was, was},
                     &(struct section){s, is, is});
}

static void follow(const struct section *was, const struct section *is,
                   const struct schema *s, const void *root, void *section)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct member old = schema_member_like(was, s, f);
        const struct member new = schema_member_like(is, s, f);
        void *dst = (char *)section + f->offset;

        if (old.field == NULL || new.field == NULL)
            continue;
        if (schema_storage(f) == STORED_MAP)
            follow(&old.inner, &new.inner, schema_below(f, root), root, dst);
        else if (schema_same_value(f, old.value, dst))
            memcpy(dst, new.value, schema_value_size(f->type));
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
