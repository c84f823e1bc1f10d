/* json.h - writes one JSON value into a growing buffer.
 *
 *     struct json j = {0};
 *
 *     json_object(&j);
 *     json_put_str(&j, "run", name);
 *     json_print(&j, stdout);
 *
 * Commas and closing brackets are inserted automatically; RFC 8259. Strings are escaped;
 * bytes that are not UTF-8 become U+FFFD. Doubles are written as the shortest decimal
 * that reads back equal, NaN and infinities as null. Nesting deeper than JSON_MAX_DEPTH
 * is a programming error (CHECK).
 */
#ifndef SUPERVISOR_METRICS_JSON_H
#define SUPERVISOR_METRICS_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 16

struct json { /* all-zero is empty; private */
    char *data;
    size_t len, cap;
    int depth;
    int after_key;
    struct {
        char close;
        int count;
    } level[JSON_MAX_DEPTH];
};

void json_done(struct json *j);
/* For the next value: clears the text, keeps the memory. */
void json_begin(struct json *j);
void json_object(struct json *j);
void json_array(struct json *j);
void json_close(struct json *j); /* closes the innermost object or array */
void json_key(struct json *j, const char *key);
void json_str(struct json *j, const char *s); /* NULL: writes null */
void json_strn(struct json *j, const char *s, size_t len);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_f64(struct json *j, double v);
void json_bool(struct json *j, int v);
void json_null(struct json *j);
/* A key with its value. */
void json_put_str(struct json *j, const char *key, const char *s);
void json_put_u64(struct json *j, const char *key, uint64_t v);
void json_put_i64(struct json *j, const char *key, int64_t v);
void json_put_f64(struct json *j, const char *key, double v);
void json_put_bool(struct json *j, const char *key, int v);
/* A key with v or, if it is not known, null. */
void json_put_known(struct json *j, const char *key, int is_known, uint64_t v);
/* A key, then the beginning of its value. */
void json_put_object(struct json *j, const char *key);
void json_put_array(struct json *j, const char *key);
/* A value that is JSON already. */
void json_raw(struct json *j, const char *text, size_t len);
/* The whole text with a newline, NUL-terminated, valid until the next json_begin. */
const char *json_line(struct json *j, size_t *ret_len);
/* Closes what is open, prints the text as one line, flushes f, and frees the memory. */
void json_print(struct json *j, FILE *f);

#define JSON_NUMBER_MAX 32
/* Writes the shortest decimal that reads back as v (finite); returns buf. */
const char *json_format_f64(double v, char buf[JSON_NUMBER_MAX]);

#endif
