/* What report.c and report_inquiry.c share. */
#ifndef OMP_STUB_REPORT_H
#define OMP_STUB_REPORT_H

enum { EVENTS_2015 = 71 };
extern ompt_callback_t callbacks_2015[EVENTS_2015]; /* by number of the event; 0 is none */
extern const struct tool_events events_2015;
ompt_interface_fn_t device_lookup_2015(const char *name); /* report_device.c */

#endif
