#include "tests/support/agent_config.h"

#include "common/err/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int agent_config_from_text(struct run_config *ret, const char *section, struct err *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    int rc;

    CHECK(f != NULL, "no memory");
    (void)fputs("env: {id: simple_spread}\ndefaults:\n  ", f);
    for (const char *c = section; *c != '\0'; c++)
        (void)fputs(*c == '\n' ? "\n  " : (char[]){*c, '\0'}, f);
    (void)fputs("\n", f);
    CHECK(fclose(f) == 0, "no memory");
    rc = run_config_parse(ret, text, len, "agent", NULL, err);
    free(text);
    return rc;
}
