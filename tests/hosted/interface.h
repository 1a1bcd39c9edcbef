/* As much of omp-tools.h as the libraries of these tests need. */
#include <stdint.h>

typedef struct {
    uint64_t segment, address;
} address_t;

typedef struct {
    int (*alloc_memory)(uint64_t, void **);
    int (*free_memory)(void *);
    int (*print_string)(const char *, int);
    int (*sizeof_type)(void *, unsigned char *);
    int (*symbol_addr_lookup)(void *, void *, const char *, address_t *, const char *);
    int (*read_memory)(void *, void *, const address_t *, uint64_t, void *);
    int (*write_memory)(void *, void *, const address_t *, uint64_t, const void *);
    int (*read_string)(void *, void *, const address_t *, uint64_t, void *);
    int (*device_to_host)(void *, const void *, uint64_t, uint64_t, void *);
    int (*host_to_device)(void *, const void *, uint64_t, uint64_t, void *);
    int (*get_thread_context_for_thread_id)(void *, uint64_t, uint64_t, const void *, void **);
} callbacks_t;

typedef struct {
    void *context;
    uint64_t number;
} handle_t;

enum { OK, UNAVAILABLE, STALE_HANDLE, BAD_INPUT, ERROR, UNSUPPORTED, INCOMPLETE = 11 };
