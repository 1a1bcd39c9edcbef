/* What openmp5.c, openmp5_inquiry.c and registration.c share. */
#ifndef OMP_STUB_OPENMP5_H
#define OMP_STUB_OPENMP5_H

enum { CALLBACKS_5 = 38 };
extern ompt_callback_t callbacks_5[CALLBACKS_5]; /* by number of the callback; 0 is none */
extern const struct tool_events events_5;
extern ompt_start_tool_result_t *tool_5;         /* what the tool has returned */

ompt_frame_t *frame_of_task(struct stub_task *task);
int flags_of_task(const struct stub_task *task);

/* openmp5_device.c */
void tell_device_5(bool begins);
void tell_target_5(struct stub_thread *thread, struct stub_task *task, bool begins);
void tell_target_submit_5(struct stub_task *task, bool begins);
void tell_target_data_5(struct stub_thread *thread, bool begins);
void tell_map_5(struct stub_thread *thread, struct stub_task *task, const struct mapped *items, unsigned count, uint64_t id,
                bool begins);

#endif
