"""Arrow IPC streams: many queries a message, and their answers as one."""
