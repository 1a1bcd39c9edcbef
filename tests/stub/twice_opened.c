/* See twice.c. */
int counted = 1000;

int *where(void)
{
    return &counted;
}
