/* A region whose threads count until one of them ends that. Its declarations are its own, so that it needs no headers. */
int omp_get_thread_num(void);

static volatile long counts[3];
static volatile int go_on = 1;

__attribute__((noinline)) static int part(int number) {
    int result = number + 1;
    return result;
}

__attribute__((noinline)) static void others_move(void) {
    long first = counts[0], last = counts[2];
    while (counts[0] == first || counts[2] == last)
        ;
}

int main(void) {
#pragma omp parallel num_threads(3)
    {
        int number = omp_get_thread_num();
        while (number != 1 && go_on)
            counts[number]++;
        if (number == 1) {
            others_move();
            int own = part(number);
            own += part(own);
            own += 2;
            others_move();
            go_on = 0;
        }
    }
    return 0;
}
