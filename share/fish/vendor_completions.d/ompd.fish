# Completion of ompd 0.2.0 in fish, made by `ompd completion fish`.
_OMPD_COMPLETE=fish_source ompd | source
