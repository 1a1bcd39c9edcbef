/* Lines that call the C library, one after the other, in a region and outside of it, up to the end of the program. */
int rest(int milliseconds);

static int total;

__attribute__((noinline)) static int counted(int number) {
    total += number;
    return total;
}

int main(void) {
    rest(1);
    rest(2);
    int before = rest(3) + counted(4);
#pragma omp parallel num_threads(2)
    {
        rest(5);
        rest(6);
        int inside = before;
        (void)inside;
    }
    return 0;
}
