/* An OMPD library that misbehaves: what ompd_get_state does is chosen by the identifier of its thread, see the tests. */
#define _GNU_SOURCE
#include "interface.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const callbacks_t *call;
static void *process;

static void seem_to_call(void) {
    for (int i = 3; i < 64; i++) {
        uint64_t *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, i, 0);
        while (page != MAP_FAILED)
            ++*(volatile uint64_t *)page;
    }
}

#ifdef START
__attribute__((constructor)) static void start(void) {
    START;
}
#endif

int ompd_get_api_version(int64_t *version) {
    *version = 202111;
    return OK;
}

int ompd_get_version_string(const char **text) {
    *text = "hostile \033[31mlibrary";
    return OK;
}

int ompd_initialize(int64_t version, const callbacks_t *table) {
    call = table;
    return version == 202111 ? INITIALIZE_CODE : UNSUPPORTED;
}

static int make(void *context, uint64_t number, handle_t **handle) {
    int code = call->alloc_memory(sizeof **handle, (void **)handle);
    if (code == OK)
        **handle = (handle_t){context, number};
    return code;
}

int ompd_process_initialize(void *context, handle_t **handle) {
    process = context;
    return make(context, 0, handle);
}

int ompd_device_initialize(handle_t *of, void *context, uint64_t kind, uint64_t size, void *id, handle_t **handle) {
    int64_t number = 0;
    memcpy(&number, id, size);
    return kind == 1000000 ? make(context, number, handle) : UNSUPPORTED;
}

int ompd_get_omp_version(handle_t *space, int64_t *version) {
    *version = space->number;
    return OK;
}

int ompd_rel_address_space_handle(handle_t *handle) {
    return call->free_memory(handle);
}

int ompd_get_thread_handle(handle_t *space, uint64_t kind, uint64_t size, const void *id, handle_t **handle) {
    uint64_t number = 0;
    memcpy(&number, id, size);
    return make(space->context, number, handle);
}

int ompd_rel_thread_handle(handle_t *handle) {
    if (handle->number == 1000)
        raise(SIGBUS);
    return call->free_memory(handle);
}

static int read_one(uint64_t where, uint64_t size, void *buffer) {
    address_t address = {0, where};
    return call->read_memory(process, 0, &address, size, buffer);
}

static void *elsewhere(void *code) {
    char byte;
    *(int *)code = read_one(0x1000, 1, &byte);
    return 0;
}

static void *for_ever(void *nothing) {
    char byte;
    for (;;)
        read_one(0x1000, 1, &byte);
    return 0;
}

static void print_much(void) {
    static char line[1 << 16];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 400; i++)
        if (write(1, line, sizeof line) < 0)
            return;
}

static int64_t overrun(void) {
    void *block[64];
    for (int i = 0; i < 64; i++)
        call->alloc_memory(24, &block[i]);
    for (int i = 0; i < 64; i += 2)
        call->free_memory(block[i]);
    for (int i = 1; i < 64; i += 2)
        memset(block[i], 0x41, 4000);
    for (int i = 1; i < 64; i += 2)
        call->free_memory(block[i]);
    for (int i = 0; i < 64; i++)
        call->alloc_memory(1000, &block[i]);
    return 0;
}

/* Sends one message of the protocol for ever. */
static void flood(uint32_t kind, uint32_t which, uint64_t one, uint64_t two) {
    struct {
        uint32_t size, kind, which, zero;
        uint64_t context, thread, words[3];
    } message = {48, kind, which, 0, 1, 0, {one, two, 0}};
    static char much[1 << 20];
    if (kind == 6)
        message.size = sizeof much;
    for (;;)
        for (int i = 3; i < 64; i++) {
            struct stat status;
            if (fstat(i, &status) || !S_ISSOCK(status.st_mode))
                continue;
            if (write(i, &message, kind == 6 ? 8 : 56) < 0 || (kind == 6 && write(i, much, sizeof much) < 0))
                return;
        }
}

int ompd_get_state(handle_t *thread, int64_t *state, uint64_t *wait_id) {
    pthread_t other;
    char buffer[64];
    void *pointer = 0;
    address_t address = {0, 0x1000};
    int code = 0;
    process = thread->context;
    *state = -1;
    *wait_id = thread->number;
    switch (thread->number) {
    case 1:
        *(volatile int *)8 = 1;
        return OK;
    case 2:
        abort();
    case 3:
        exit(3);
    case 4:
        _exit(0);
    case 5: /* returns twice */
        *state = fork() < 0;
        return OK;
    case 6: /* leaves a process that does not end */
        code = fork();
        while (code == 0)
            pause();
        *state = code;
        return OK;
    case 7:
        for (;;)
            ;
    case 8:
        for (;;)
            read_one(0x1000, 1, buffer);
    case 9:
        for (uint64_t page = 1;; page++)
            read_one(page << 20, 1, buffer);
    case 10:
        *state = overrun();
        return OK;
    case 11:
        if (pthread_create(&other, 0, elsewhere, &code) == 0)
            pthread_join(other, 0);
        *state = code;
        return OK;
    case 12:
        *state = pthread_create(&other, 0, for_ever, 0);
        return OK;
    case 13:
        return 4711;
    case 14:
        return -1;
    case 15:
        *state = call->alloc_memory(10ull << 30, &pointer);
        *wait_id = (uint64_t)pointer;
        return OK;
    case 16:
        pointer = malloc(10ull << 30);
        *state = pointer != 0;
        return OK;
    case 17:
        while ((pointer = malloc(1 << 24)) != 0)
            memset(pointer, 1, 1 << 24);
        return OK;
    case 18:
        *state = call->print_string("clear \033[2J\033]0;title\007 it\n", 0);
        printf("out \033[31m\n");
        fflush(stdout);
        fprintf(stderr, "error \033[32m\n");
        return OK;
    case 19:
        print_much();
        *state = 1;
        return OK;
    case 20:
        for (int i = 0; i < 10000; i++)
            *state = call->print_string("again", 0);
        return OK;
    case 21:
        for (int i = 0; i < 256; i++)
            close(i);
        return OK;
    case 22:
        raise(SIGSTOP);
        return OK;
    case 23: /* on its connection, and everywhere else */
        memset(buffer, 0xff, sizeof buffer);
        for (int i = 3; i < 64; i++)
            if (write(i, buffer, sizeof buffer) < 0)
                continue;
        return OK;
    case 24: /* the page that says what it does */
        for (int i = 3; i < 64; i++) {
            char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, i, 0);
            if (page != MAP_FAILED)
                memset(page, 0xee, 4096);
            if (ftruncate(i, 0) == 0)
                *state = 0;
        }
        raise(SIGSEGV);
        return OK;
    case 25:
        *state = call->write_memory(process, 0, &address, 1, buffer);
        return OK;
    case 26:
        *state = read_one(0x1000, 10ull << 30, buffer);
        return OK;
    case 27: /* arguments that nobody may pass */
        code = call->read_memory((void *)77, 0, &address, 1, buffer) == BAD_INPUT;
        code += call->read_memory(process, 0, 0, 1, buffer) == BAD_INPUT;
        code += call->read_memory(process, 0, &address, 1, 0) == BAD_INPUT;
        code += call->read_string(process, 0, 0, 1, buffer) == BAD_INPUT;
        code += call->symbol_addr_lookup(process, 0, 0, &address, 0) == BAD_INPUT;
        code += call->symbol_addr_lookup(process, 0, "counter", 0, 0) == BAD_INPUT;
        code += call->alloc_memory(1, 0) == BAD_INPUT;
        code += call->free_memory(buffer) == BAD_INPUT;
        code += call->free_memory(0) == OK;
        code += call->print_string((char *)1, 0) == BAD_INPUT;
        code += call->sizeof_type(process, 0) == BAD_INPUT;
        code += call->device_to_host(process, buffer, 8, 1ull << 60, buffer) == BAD_INPUT;
        code += call->get_thread_context_for_thread_id(process, 0, 1000, buffer, &pointer) == BAD_INPUT;
        *state = code;
        return OK;
    case 28: /* reads what is not there */
        return read_one(0xdead0000, 8, buffer);
    case 29:
        return call->symbol_addr_lookup(process, 0, "no_such_symbol", &address, 0);
    case 30: /* a real answer, of all callbacks that read */
        address.address = 0;
        code = call->symbol_addr_lookup(process, 0, "counter", &address, "a hint");
        code = code ? code : call->read_memory(process, 0, &address, 4, buffer);
        code = code ? code : call->device_to_host(process, buffer, 4, 1, buffer);
        memcpy(wait_id, buffer, 4);
        *wait_id &= 0xffffffff;
        *state = address.address;
        return code;
    case 31: /* texts: the second one without an end */
        address.address = 0x2000;
        code = call->read_string(process, 0, &address, sizeof buffer, buffer);
        *state = strlen(buffer);
        memset(buffer, '#', sizeof buffer);
        code = code ? code : call->read_string(process, 0, &address, 4, buffer);
        *wait_id = buffer[3] << 8 | buffer[4];
        return code;
    case 32: /* across two pages, of which the second ends early */
        code = read_one(0x1ffe, 4, buffer);
        memcpy(wait_id, buffer, 4);
        *wait_id &= 0xffffffff;
        return code;
    case 33:
        code = call->sizeof_type(process, (unsigned char *)buffer);
        *state = buffer[5];
        return code;
    case 34:
        code = 4242;
        code = call->get_thread_context_for_thread_id(process, 1, 4, &code, &pointer);
        *state = (int64_t)pointer;
        return code;
    case 35: /* seems to make calls, without end */
        seem_to_call();
        return OK;
    case 36: /* memory for callbacks that it does not wait for */
        flood(4, 1, 0x1000, 1 << 25);
        return OK;
    case 37: /* warnings */
        flood(6, 1 << 20, 0, 0);
        return OK;
    case 38: /* callbacks of no kind */
        flood(4, 77, ~0ull, ~0ull);
        return OK;
    case 39: /* much memory */
        for (uint64_t place = 0x10000000; place < 0x18000000; place += 1 << 20)
            code += read_one(place, 1, buffer) == OK;
        *state = code;
        return OK;
    case 40: /* callbacks that fail, very often */
        for (int i = 0; i < 1000; i++) {
            char name[40];
            snprintf(name, sizeof name, "no_such_symbol_%d", i);
            read_one(0xdead0000 + i, 8, buffer);
            call->symbol_addr_lookup(process, 0, name, &address, 0);
        }
        return OK;
    default:
        *state = thread->number;
        return OK;
    }
}

int ompd_get_curr_parallel_handle(handle_t *thread, handle_t **handle) {
    if (thread->number == 1)
        *handle = (handle_t *)16;
    if (thread->number == 2)
        *handle = (handle_t *)0x4141414141414141;
    return OK;
}

int ompd_get_enclosing_parallel_handle(handle_t *region, handle_t **handle) {
    return make(region->context, region->number, handle);
}

int ompd_rel_parallel_handle(handle_t *handle) {
    return OK;
}

int ompd_get_icv_from_scope(handle_t *handle, int scope, uint64_t number, int64_t *value) {
    *value = -(int64_t)number;
    return number == 7 ? INCOMPLETE : scope == 3 ? OK : UNAVAILABLE;
}

int ompd_get_icv_string_from_scope(handle_t *handle, int scope, uint64_t number, const char **text) {
    char *own;
    if (number == 1)
        *text = (const char *)0x1234;
    if (number == 2)
        *text = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (number == 2)
        memset((char *)*text, 'x', 8 << 20);
    if (number == 6) {
        own = calloc(1, 900001);
        *text = memset(own, 'x', 900000);
    }
    if (number == 3)
        *text = "its own";
    if (number == 4) {
        call->alloc_memory(6, (void **)&own);
        memcpy(own, "ours\xff", 6);
        *text = own;
    }
    return OK;
}

int ompd_enumerate_states(handle_t *space, int64_t current, int64_t *next, const char **name, int64_t *more) {
    *next = current == 0x102 ? 0 : current + ENUMERATION_STEP;
    *name = "state";
    *more = 1;
    return OK;
}

int ompd_enumerate_icvs(handle_t *space, uint64_t current, uint64_t *next, const char **name, int *scope, int *more) {
    *next = current + 1;
    *name = "some-var";
    *scope = 99;
    *more = current < 2;
    return current < 2 ? OK : BAD_INPUT;
}

int ompd_get_display_control_vars(handle_t *space, const char *const **vector) {
    static const char *endless[1 << 17];
    for (unsigned i = 0; i < sizeof endless / sizeof *endless; i++)
        endless[i] = "A=B";
    *vector = endless;
    return OK;
}

int ompd_get_device_thread_id_kinds(handle_t *space, uint64_t **kinds, uint64_t **sizes, int *count) {
    *kinds = *sizes = (uint64_t *)8;
    *count = -5;
    return OK;
}

int ompd_get_task_frame(handle_t *task, void *exit_frame, void *enter_frame) {
    return OK;
}

int ompd_finalize(void) {
#ifdef ENDS_BADLY
    raise(SIGILL);
#endif
    return OK;
}
