#include <stdio.h>

int main(void)
{
    (void)fputs("brood: nothing here yet\n", stderr);
    return 2;
}
