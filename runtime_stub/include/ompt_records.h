/* Records of a device's trace, of the report of 2015. Part of ompt.h, which includes it. */
#ifndef OMPT_RECORDS_H
#define OMPT_RECORDS_H

typedef enum {
    ompt_record_ompt = 0,
    ompt_record_correlation = 1,
    ompt_record_native = 2,
    ompt_record_invalid = 3
} ompt_record_type_t;

typedef enum {
    ompt_record_native_class_info = 0,
    ompt_record_native_class_event = 1
} ompt_record_native_class_t;

/* Ruling: `dev_task_id`, as in the appendix, ompt_dev_task_none if unknown. The text calls it target_task_id, 0 if unknown. */
typedef struct ompt_record_native_abstract_s {
    ompt_record_native_class_t rclass;
    const char *type;
    ompt_target_time_t start_time;
    ompt_target_time_t end_time;
    ompt_target_activity_id_t dev_task_id;
    uint64_t hwid;                    /* (uint64_t)ompt_hwid_none if there is none */
} ompt_record_native_abstract_t;

typedef struct ompt_record_correlation_s {
    ompt_task_id_t host_task_id;
    ompt_target_activity_id_t dev_task_id;
} ompt_record_correlation_t;

typedef struct ompt_record_thread_s {
    ompt_thread_id_t thread_id;
} ompt_record_thread_t;

typedef struct ompt_record_thread_type_s {
    ompt_thread_type_t thread_type;
    ompt_thread_id_t thread_id;
} ompt_record_thread_type_t;

typedef struct ompt_record_wait_id_s {
    ompt_wait_id_t wait_id;
} ompt_record_wait_id_t;

typedef struct ompt_record_parallel_s {
    ompt_parallel_id_t parallel_id;
    ompt_task_id_t task_id;
} ompt_record_parallel_t;

typedef struct ompt_record_workshare_begin_s {
    ompt_parallel_id_t parallel_id;
    ompt_task_id_t task_id;
    void *codeptr_ra;
} ompt_record_workshare_begin_t;

typedef struct ompt_record_parallel_begin_s {
    ompt_task_id_t parent_task_id;
    ompt_frame_t *parent_frame;
    ompt_parallel_id_t parallel_id;
    uint32_t requested_team_size;
    void *codeptr_ofn;
} ompt_record_parallel_begin_t;

typedef struct ompt_record_task_s {
    ompt_task_id_t task_id;
} ompt_record_task_t;

typedef struct ompt_record_task_pair_s {
    ompt_task_id_t first_task_id;
    ompt_task_id_t second_task_id;
} ompt_record_task_pair_t;

typedef struct ompt_record_task_begin_s {
    ompt_task_id_t parent_task_id;
    ompt_frame_t *parent_task_frame;
    ompt_task_id_t new_task_id;
    void *codeptr_ofn;
} ompt_record_task_begin_t;

typedef struct ompt_record_target_task_begin_s {
    ompt_task_id_t parent_task_id;
    ompt_frame_t *parent_task_frame;
    ompt_task_id_t target_task_id;
    int device_id;
    void *target_task_code;
} ompt_record_target_task_begin_t;

typedef struct ompt_record_target_data_begin_s {
    ompt_task_id_t task_id;
    int device_id;
    void *codeptr_ra;
} ompt_record_target_data_begin_t;

typedef struct ompt_record_data_map_begin_s {
    ompt_task_id_t task_id;
    int device_id;
    void *host_addr;
    void *device_addr;
    size_t bytes;
    uint32_t mapping_flags;
    void *target_map_code;
} ompt_record_data_map_begin_t;

typedef struct ompt_record_data_map_done_s {
    ompt_task_id_t task_id;
    int device_id;
    void *host_addr;
    void *device_addr;
    size_t bytes;
    uint32_t mapping_flags;
} ompt_record_data_map_done_t;

typedef struct ompt_record_task_dependences_s {
    ompt_task_id_t task_id;
    ompt_task_dependence_t *deps;
    int ndeps;
} ompt_record_task_dependences_t;

typedef struct ompt_record_ompt_s {
    ompt_event_t type;
    ompt_target_time_t time;
    ompt_thread_id_t thread_id;
    ompt_target_activity_id_t dev_task_id;
    union {
        ompt_record_thread_t thread;
        ompt_record_thread_type_t type;
        ompt_record_wait_id_t waitid;
        ompt_record_parallel_t parallel;
        ompt_record_workshare_begin_t new_workshare;
        ompt_record_parallel_begin_t new_parallel;
        ompt_record_task_t task;
        ompt_record_task_pair_t task_switch;
        ompt_record_task_begin_t new_task;
    } record;
} ompt_record_ompt_t;

#endif
