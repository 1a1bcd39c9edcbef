# Completion of ompd 0.2.0 in fish, made by `ompd completion fish`.

# The command that is typed, with a second word where it has commands of its own.
function __ompd_command
    set -l words (commandline -opc)
    for word in $words[2..-1]
        switch $word
            case '-*'
                continue
            case why threads stack parallel tasks var icvs diff triage hook report snapshot schema runtimes check conformance doctor setup lldb-init gdb-init completion manual
                echo $word
                return
            case layout
                set -l rest (string match -v -- '-*' $words[2..-1])
                echo layout $rest[2]
                return
            case '*'
                echo threads
                return
        end
    end
    echo first
end

function __ompd_is
    contains -- (string trim -- "$(__ompd_command)") $argv
end

complete -c ompd -n '__ompd_is first' -a why -d 'Why it hangs: who waits for whom, and what would set them free.'
complete -c ompd -n '__ompd_is first' -a threads -d 'What every thread is doing, and what it waits for.'
complete -c ompd -n '__ompd_is first' -a stack -d 'Each thread\'s stack, as your source reads.'
complete -c ompd -n '__ompd_is first' -a parallel -d 'The parallel regions, as a tree.'
complete -c ompd -n '__ompd_is first' -a tasks -d 'The tasks, as a tree.'
complete -c ompd -n '__ompd_is first' -a var -d 'One variable, in every thread.'
complete -c ompd -n '__ompd_is first' -a icvs -d 'The runtime\'s settings (internal control variables).'
complete -c ompd -n '__ompd_is first' -a diff -d 'What has changed between two moments: who moved, who is stuck.'
complete -c ompd -n '__ompd_is first' -a triage -d 'Group any number of cores and processes by what is wrong.'
complete -c ompd -n '__ompd_is first' -a hook -d 'Print a script that triages a job before it is ended.'
complete -c ompd -n '__ompd_is first' -a report -d 'Write one HTML page with pictures, for a ticket or a mail.'
complete -c ompd -n '__ompd_is first' -a snapshot -d 'Write a small core to send to somebody else.'
complete -c ompd -n '__ompd_is first' -a schema -d 'Print the JSON Schema of a command\'s output.'
complete -c ompd -n '__ompd_is first' -a runtimes -d 'The OpenMP runtimes in the process, and how ompd reads them.'
complete -c ompd -n '__ompd_is first' -a check -d 'An OMPD library compared with ompd itself, fact by fact.'
complete -c ompd -n '__ompd_is first' -a conformance -d 'Put an OMPD or DMPL library to the test against its standard.'
complete -c ompd -n '__ompd_is first' -a layout -d 'Commands: show, add'
complete -c ompd -n '__ompd_is first' -a doctor -d 'What keeps answers from being better, and what mends it.'
complete -c ompd -n '__ompd_is first' -a setup -d 'Install completion, manual page and debugger lines.'
complete -c ompd -n '__ompd_is first' -a lldb-init -d 'Load these commands into LLDB.'
complete -c ompd -n '__ompd_is first' -a gdb-init -d 'Load these commands into gdb.'
complete -c ompd -n '__ompd_is first' -a completion -d 'Print a file by which a shell completes these commands.'
complete -c ompd -n '__ompd_is first' -a manual -d 'Print the manual page, for man.'
complete -c ompd -f -n '__ompd_is layout' -a show -d 'List the tables, or print one.'
complete -c ompd -f -n '__ompd_is layout' -a add -d 'Make a table from a runtime\'s debug information.'
complete -c ompd -n '__ompd_is first' -l version -d 'Show the version and exit.'
complete -c ompd -n '__ompd_is first' -s h -l help -d 'Show this message and exit.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l exe -r -d 'The program, if the core does not name it or the file has changed since.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l sysroot -r -a '(__fish_complete_directories)' -d 'Folder that holds the files of the machine on which the program ran.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff triage report snapshot runtimes check doctor' -l debug-dir -r -a '(__fish_complete_directories)' -d 'Folder with separate debug files or .build-id folders; may be repeated.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff triage report snapshot runtimes check doctor' -l debuginfod -d 'Download missing files from the servers in DEBUGINFOD_URLS.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l max-size -x -d 'Largest size of a compressed core once it is unpacked, as 500M or 2G; default 32G.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check conformance doctor' -l plugins -r -a '(__fish_complete_directories)' -d 'Folder with plugins for other OpenMP runtimes; may be repeated.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l ompd-library -r -a 'named' -d 'Let an OMPD library answer: FILE, or named, the one that the runtime itself names.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l nonblocking -d 'Do not stop a live process; facts may be of different moments.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l max-stop -x -d 'Longest stop of a live process, in milliseconds; default 50, plus 0.2 for each thread above 256.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff triage report snapshot runtimes check conformance "layout show" "layout add" doctor' -l json -d 'Print one JSON object.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -l color -x -a 'auto always never' -d 'Colours in text; default auto. NO_COLOR is respected.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor' -s v -l verbose -d 'Show addresses, where each fact came from, and why any is unknown.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff triage report snapshot runtimes check conformance "layout show" "layout add" doctor' -l debug -d 'Show the traceback of an error.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs check' -l all -d 'Print every row on a line of its own.'
complete -c ompd -n '__ompd_is why' -l samples -x -d 'How often to look at a live process, 2 unless given.'
complete -c ompd -n '__ompd_is why' -l interval -x -d 'Seconds between two looks, 0.5 unless given.'
complete -c ompd -n '__ompd_is why' -l dot -d 'Print the wait-for graph for graphviz (dot -Tsvg) instead of text.'
complete -c ompd -n '__ompd_is why' -l exit-code -d 'Exit with 10, 11, 12 or 13, as said above, also if parts were unreadable.'
complete -c ompd -n '__ompd_is why threads stack parallel tasks var icvs diff triage hook report snapshot schema runtimes check conformance "layout show" "layout add" doctor setup lldb-init gdb-init completion manual' -s h -l help -d 'Show this message and exit.'
complete -c ompd -n '__ompd_is threads' -l csv -d 'Print comma-separated values, each thread in a line.'
complete -c ompd -n '__ompd_is stack' -l raw -d 'All frames of the thread\'s own stack, each with its owner, task and frame address (CFA).'
complete -c ompd -n '__ompd_is stack' -l fold -d 'Group threads with equal stacks.'
complete -c ompd -n '__ompd_is stack' -l format -x -a 'folded speedscope' -d 'Print the stacks for flame graphs: folded, a line for each distinct stack, or speedscope\'s JSON.'
complete -c ompd -n '__ompd_is stack' -l locals -d 'Local variables of your frames, with how constructs share them, if that is known.'
complete -c ompd -n '__ompd_is stack' -l thread -x -d 'Only the thread with this native id or, if there is none, threads with this OpenMP number.'
complete -c ompd -n '__ompd_is var' -l format -x -a 'x d u o t c f s a z' -d 'Print values as gdb\'s print/LETTER does.'
complete -c ompd -n '__ompd_is var' -l stats -d 'Add statistics: minimum, maximum, mean, distinct values, outliers.'
complete -c ompd -n '__ompd_is var' -l elements -x -d 'Print at most N elements of an array or characters of a string; default 200.'
complete -c ompd -n '__ompd_is icvs' -l changed -d 'Only variables that differ between threads, regions or tasks.'
complete -c ompd -n '__ompd_is diff' -l all -d 'Print every row on a line of its own, unchanged ones, too.'
complete -c ompd -n '__ompd_is diff' -l watch -x -d 'Look at process A every S seconds, and print what has changed each time.'
complete -c ompd -n '__ompd_is diff' -l samples -x -d 'With --watch, end after N times.'
complete -c ompd -n '__ompd_is triage' -l workers -x -d 'Workers; default one a processor.'
complete -c ompd -n '__ompd_is triage' -l engine -x -a 'local dask mpi' -d 'Whose workers inspect: processes of this machine, a Dask cluster\'s, or the ranks of mpi4py.futures.'
complete -c ompd -n '__ompd_is triage' -l scheduler -x -d 'Dask\'s scheduler: its address, or its scheduler file.'
complete -c ompd -n '__ompd_is triage' -l results -r -d 'Write each result into FILE as it is ready, and take from there those that it has already.'
complete -c ompd -n '__ompd_is triage' -l baseline -r -d 'Compare with an earlier triage (--json).'
complete -c ompd -n '__ompd_is triage' -l max-time -x -d 'Seconds that one target may take; default 60.'
complete -c ompd -n '__ompd_is triage' -l max-memory -x -d 'Memory that the inspection of one target may take, as 500M or 4G; default 2G.'
complete -c ompd -n '__ompd_is triage' -l exe -r -d 'The program, if cores do not name it.'
complete -c ompd -n '__ompd_is triage' -l sysroot -r -a '(__fish_complete_directories)' -d 'Folder with the files of the cores\' machine.'
complete -c ompd -n '__ompd_is triage' -l max-size -x -d 'Largest size of a compressed core once it is unpacked; default 32G.'
complete -c ompd -n '__ompd_is triage' -l max-stop -x -d 'Longest stop of a live process, in milliseconds; default 50.'
complete -c ompd -n '__ompd_is triage' -s o -l output -r -d 'Write a page of HTML, too; - prints it in place of text.'
complete -c ompd -n '__ompd_is triage' -s v -l verbose -d 'Show all targets of each group and all that failed.'
complete -c ompd -n '__ompd_is report' -s o -l output -r -d 'The file to write; - for stdout.'
complete -c ompd -n '__ompd_is report' -l var -x -d 'A variable to show in each thread; may be repeated.'
complete -c ompd -n '__ompd_is report' -l env -d 'Put the environment of the process into the page, too.'
complete -c ompd -n '__ompd_is report' -l date -x -d 'What the page says of when it was made, in place of the time.'
complete -c ompd -n '__ompd_is snapshot' -s o -l output -r -d 'The file to write.'
complete -c ompd -n '__ompd_is snapshot' -l data -x -d 'How much writable data to keep of each of your modules: 500K, 2G, 0 for none; default 1M.'
complete -c ompd -n '__ompd_is snapshot' -l keep-env -d 'Keep the whole environment and the folders in arguments.'
complete -c ompd -n '__ompd_is conformance' -l expect -r -d 'Keys of known findings, one a line.'
complete -c ompd -n '__ompd_is conformance' -l first -d 'Stop trying a program at its first finding.'
complete -c ompd -n '__ompd_is conformance' -l reproducer -r -a '(__fish_complete_directories)' -d 'Write a program in C for each finding into DIR.'
complete -c ompd -n '__ompd_is conformance' -l junit -r -d 'Write the findings into FILE as JUnit\'s XML.'
complete -c ompd -n '__ompd_is "layout show"' -l color -x -a 'auto always never' -d 'Colours in text; NO_COLOR is respected.'
complete -c ompd -n '__ompd_is "layout show"' -s v -l verbose -d 'Show build-ids with what each is, and the files.'
complete -c ompd -n '__ompd_is "layout add"' -l name -x -d 'Name of the runtime\'s release and of the table; default: read from FILE.'
complete -c ompd -n '__ompd_is "layout add"' -l runtime -x -a 'libgomp libomp' -d 'The runtime in FILE, if it has the types of several.'
complete -c ompd -n '__ompd_is setup' -l dry-run -d 'Say what would be written, and write nothing.'
complete -c ompd -n '__ompd_is setup' -l undo -d 'Remove what was written, and nothing else.'
complete -c ompd -n '__ompd_is lldb-init' -l install -d 'Write the line into ~/.lldbinit, once.'
complete -c ompd -n '__ompd_is lldb-init gdb-init' -l uninstall -d 'Remove it from there.'
complete -c ompd -n '__ompd_is gdb-init' -l install -d 'Write the line into ~/.gdbinit, once.'
complete -c ompd -f -n '__ompd_is triage'
complete -c ompd -f -n '__ompd_is hook' -a 'slurm pmi'
complete -c ompd -f -n '__ompd_is schema' -a 'runtimes threads why parallel tasks stack icvs var doctor check conformance diff layout triage'
complete -c ompd -f -n '__ompd_is "layout show"'
complete -c ompd -f -n '__ompd_is setup'
complete -c ompd -f -n '__ompd_is lldb-init'
complete -c ompd -f -n '__ompd_is gdb-init'
complete -c ompd -f -n '__ompd_is completion' -a 'bash zsh fish'
complete -c ompd -f -n '__ompd_is manual'
complete -c ompd -n '__ompd_is first why threads stack parallel tasks var icvs diff report snapshot runtimes check doctor; and string match -qr "^[0-9]" -- (commandline -ct)' -a '(__fish_complete_pids)'
