#include <stdio.h>

int main(void)
{
    (void)fputs("brood-agent is started by brood; it does nothing by itself\n", stderr);
    return 100;
}
