/* What the first report of 2015 guarantees: the vector is NULL, or complete; and execution passes a point, be it a
 * function or a label, at which it is. This program plants a breakpoint there, as a debugger would. x86. */
#include "check.h"
#include "omp_stub.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

extern const char **ompd_dll_locations;
int omp_get_max_threads(void);

static unsigned char *point, original;
static volatile int passed;

static void write_byte(unsigned char byte)
{
    size_t page = sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)point & ~(page - 1));
    CHECK(!mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC));
    *point = byte;
    CHECK(!mprotect(start, page, PROT_READ | PROT_EXEC));
}

/* The libraries that are beside the runtime, by their whole paths, then the plugin. */
static void check_vector(void)
{
    static const char *const names[] = {"libompd_stub32.so", "libompd_stub.so"};
    char expected[4096];
    Dl_info library;
    const char **next = ompd_dll_locations;
    CHECK(dladdr((void *)point, &library));
    char *file = realpath(library.dli_fname, NULL);
    CHECK(file && file[0] == '/');
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        snprintf(expected, sizeof expected, "%.*s/%s", (int)(strrchr(file, '/') - file), file, names[at]);
        if (access(expected, R_OK))
            continue;
        CHECK(*next && !strcmp(*next, expected));
        next++;
    }
    free(file);
    CHECK(next > ompd_dll_locations);
    CHECK(*next && !strcmp(*next, "ompd-stub"));
    CHECK(!next[1]);
}

static void at_point(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ucontext_t *registers = context;
#ifdef __x86_64__
    greg_t *counter = &registers->uc_mcontext.gregs[REG_RIP];
#else
    greg_t *counter = &registers->uc_mcontext.gregs[REG_EIP];
#endif
    CHECK((unsigned char *)*counter == point + 1);
    CHECK(ompd_dll_locations);
    passed++;
    write_byte(original);
    *counter = (greg_t)point;
}

static void test_names_of_environment(const char *self)
{
    CHECK(!strcmp(ompd_dll_locations[0], "first"));
    CHECK(!strcmp(ompd_dll_locations[1], "/second"));
    CHECK(!ompd_dll_locations[2]);
    (void)self;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = at_point, .sa_flags = SA_SIGINFO};
    CHECK(!ompd_dll_locations);
    point = dlsym(RTLD_DEFAULT, "ompd_dll_locations_valid");
    CHECK(point);
    sigaction(SIGTRAP, &action, NULL);
    original = *point;
    write_byte(0xcc);
    omp_get_max_threads();
    IS(int, passed, 1);
    if (argc > 1) {
        test_names_of_environment(argv[0]);
        return 0;
    }
    check_vector();
    setenv("OMP_STUB_DLLS", "first:/second", 1);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 1;
}
