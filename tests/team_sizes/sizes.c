#include "sizes.h"

static APART void constant(void) {
#pragma omp parallel num_threads(3)
    WAIT(3);
}

static APART void many(int processors) {
    (void)processors;
#pragma omp parallel num_threads(64)
    WAIT(64);
}

static APART void variable(int count) {
#pragma omp parallel num_threads(count)
    WAIT(count);
}

static APART void computed(int count) {
#pragma omp parallel num_threads(count * 2 - 1)
    WAIT(count * 2 - 1);
}

static APART void global(void) {
#pragma omp parallel num_threads(requested_globally)
    {
        int before = 3;
        requested_globally = 5;
        WAIT(before);
    }
}

static APART void changed(int count) {
    int before = count;
#pragma omp parallel num_threads(count) shared(count)
    {
#pragma omp barrier
        count = 9;
#pragma omp barrier
        WAIT(before);
    }
    printf("%d\n", count);
}

static APART void no_clause(int count) {
    omp_set_num_threads(count);
#pragma omp parallel
    {
        omp_set_num_threads(7);
        WAIT(count);
    }
}

static APART void from_environment(void) {
    int count = omp_get_max_threads();
#pragma omp parallel
    WAIT(count);
}

static APART void repeated(int count) {
    for (int size = 2; size <= count; size++) {
#pragma omp parallel num_threads(size)
        if (size == count)
            WAIT(count);
    }
}

static APART void after_another(int count) {
#pragma omp parallel num_threads(2)
    __atomic_fetch_add(&requested_globally, 1, __ATOMIC_SEQ_CST);
    omp_set_num_threads(count);
#pragma omp parallel
    WAIT(count);
}

static APART void loop(void) {
#pragma omp parallel for num_threads(3) schedule(dynamic)
    for (int item = 0; item < 3; item++)
        WAIT(3);
}

static APART void sections(void) {
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        WAIT(2);
#pragma omp section
        WAIT(2);
    }
}

static APART void condition(int count) {
#pragma omp parallel num_threads(count) if (count > 5)
    WAIT(1);
}

static APART void either(int count) {
    if (count > 2) {
#pragma omp parallel num_threads(3)
        WAIT(3);
    } else {
#pragma omp parallel num_threads(2)
        WAIT(2);
    }
}

static APART void nested(void) {
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
        if (omp_get_thread_num() == 1) {
#pragma omp parallel num_threads(3)
            WAIT(3);
        }
#pragma omp barrier
    }
}

static APART void task(int count) {
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp task
    {
        omp_set_num_threads(count);
#pragma omp parallel
        WAIT(count);
    }
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 3;
    if (strstr(name, "dynamic"))
        omp_set_dynamic(1);
    if (!strcmp(name, "constant"))
        constant();
    if (!strcmp(name, "many") || !strcmp(name, "dynamic"))
        many(count);
    if (!strcmp(name, "variable"))
        variable(count);
    if (!strcmp(name, "computed"))
        computed(count);
    if (!strcmp(name, "global"))
        global();
    if (!strcmp(name, "changed"))
        changed(count);
    if (!strcmp(name, "no_clause"))
        no_clause(count);
    if (!strcmp(name, "from_environment"))
        from_environment();
    if (!strcmp(name, "repeated"))
        repeated(count);
    if (!strcmp(name, "after_another"))
        after_another(count);
    if (!strcmp(name, "loop"))
        loop();
    if (!strcmp(name, "sections"))
        sections();
    if (!strcmp(name, "condition"))
        condition(count);
    if (!strcmp(name, "either"))
        either(count);
    if (!strcmp(name, "nested"))
        nested();
    if (!strcmp(name, "task"))
        task(count);
    puts("done");
    return 1;
}
