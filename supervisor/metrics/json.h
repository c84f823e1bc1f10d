/* json.h - writing JSON: one value into a growing buffer.
 *
 *     json_begin(&j);  json_object(&j);  json_key(&j, "run");  json_str(&j, name);
 *     json_close(&j);  json_line(&j, &text, &len);
 *
 * Commas and closing brackets are kept track of; RFC 8259. Strings are escaped, bytes
 * that are not UTF-8 become U+FFFD. Doubles are the shortest that read back equal; NaN
 * and infinities are null. Nesting is at most JSON_MAX_DEPTH (CHECKed: the program's
 * own).
 */
#ifndef SUPERVISOR_METRICS_JSON_H
#define SUPERVISOR_METRICS_JSON_H

#include <stddef.h>
#include <stdint.h>

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
void json_begin(struct json *j); /* forgets what is there, keeps the memory */
void json_object(struct json *j);
void json_array(struct json *j);
void json_close(struct json *j); /* the innermost object or array */
void json_key(struct json *j, const char *key);
void json_str(struct json *j, const char *s); /* NULL gives null */
void json_strn(struct json *j, const char *s, size_t len);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_f64(struct json *j, double v);
void json_bool(struct json *j, int v);
void json_null(struct json *j);
/* The whole text with a newline, NUL-terminated, valid until the next json_begin. */
const char *json_line(struct json *j, size_t *ret_len);

#define JSON_NUMBER_MAX 32
/* The shortest decimal that reads back as v (finite); returns buf. */
const char *json_format_f64(double v, char buf[JSON_NUMBER_MAX]);

#endif
