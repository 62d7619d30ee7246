# Written by tools/make-completion out of `weir --help`: do not edit, run `make completion`.
complete -c weir -f
complete -c weir -n __fish_use_subcommand -a serve -d 'Decide for others: RESP and HTTP'
complete -c weir -n __fish_use_subcommand -a take -d 'Take permits, as a caller would'
complete -c weir -n __fish_use_subcommand -a peek -d 'Ask whether a call would pass; takes nothing'
complete -c weir -n __fish_use_subcommand -a reset -d 'Forget what a key has used'
complete -c weir -n __fish_use_subcommand -a explain -d 'Say what each limit makes of a call; takes nothing'
complete -c weir -n __fish_use_subcommand -a policies -d 'List the policies in force'
complete -c weir -n __fish_use_subcommand -a test -d 'Run timelines: arrivals on a virtual clock, and what is expected of a limit'
complete -c weir -n __fish_use_subcommand -a validate -d 'Check policy files: everything that is wrong, and where'
complete -c weir -n __fish_use_subcommand -s h -l help -d 'Print this help message and exit'
complete -c weir -n __fish_use_subcommand -l version -d 'Display program version information and exit'

complete -c weir -n '__fish_seen_subcommand_from serve' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from serve' -l config -r -F -d 'The policy file; read again when it changes'
complete -c weir -n '__fish_seen_subcommand_from serve' -l threads -x -d 'Default: one for each processor'
complete -c weir -n '__fish_seen_subcommand_from serve' -l log -x -a 'json text' -d 'How to write the log: text (the default) or json'

complete -c weir -n '__fish_seen_subcommand_from take' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from take' -l url -x -d 'Where the daemon is'
complete -c weir -n '__fish_seen_subcommand_from take' -l token -x -d 'The password or admin token, if it has one'
complete -c weir -n '__fish_seen_subcommand_from take' -l json -d 'Print the answer as JSON'
complete -c weir -n '__fish_seen_subcommand_from take' -l part -x -d 'A part of the key instead, name=value; repeatable'
complete -c weir -n '__fish_seen_subcommand_from take' -l permits -x -d 'How many'

complete -c weir -n '__fish_seen_subcommand_from peek' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from peek' -l url -x -d 'Where the daemon is'
complete -c weir -n '__fish_seen_subcommand_from peek' -l token -x -d 'The password or admin token, if it has one'
complete -c weir -n '__fish_seen_subcommand_from peek' -l json -d 'Print the answer as JSON'
complete -c weir -n '__fish_seen_subcommand_from peek' -l part -x -d 'A part of the key instead, name=value; repeatable'
complete -c weir -n '__fish_seen_subcommand_from peek' -l permits -x -d 'How many'

complete -c weir -n '__fish_seen_subcommand_from reset' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from reset' -l url -x -d 'Where the daemon is'
complete -c weir -n '__fish_seen_subcommand_from reset' -l token -x -d 'The password or admin token, if it has one'
complete -c weir -n '__fish_seen_subcommand_from reset' -l json -d 'Print the answer as JSON'
complete -c weir -n '__fish_seen_subcommand_from reset' -l part -x -d 'A part of the key instead, name=value; repeatable'

complete -c weir -n '__fish_seen_subcommand_from explain' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from explain' -l url -x -d 'Where the daemon is'
complete -c weir -n '__fish_seen_subcommand_from explain' -l token -x -d 'The password or admin token, if it has one'
complete -c weir -n '__fish_seen_subcommand_from explain' -l json -d 'Print the answer as JSON'
complete -c weir -n '__fish_seen_subcommand_from explain' -l part -x -d 'A part of the key instead, name=value; repeatable'
complete -c weir -n '__fish_seen_subcommand_from explain' -l permits -x -d 'How many'

complete -c weir -n '__fish_seen_subcommand_from policies' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from policies' -l url -x -d 'Where the daemon is'
complete -c weir -n '__fish_seen_subcommand_from policies' -l token -x -d 'The password or admin token, if it has one'
complete -c weir -n '__fish_seen_subcommand_from policies' -l json -d 'Print the answer as JSON'

complete -c weir -n '__fish_seen_subcommand_from test' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from test' -l config -r -F -d 'Policy file, for cases that name a policy'
complete -c weir -n '__fish_seen_subcommand_from test' -l store -x -d 'Run on an engine with this store: memory (default: the bare algorithms)'
complete -c weir -n '__fish_seen_subcommand_from test' -l json -d 'Report as JSON'
complete -c weir -n '__fish_seen_subcommand_from test' -F

complete -c weir -n '__fish_seen_subcommand_from validate' -s h -l help -d 'Print this help message and exit'
complete -c weir -n '__fish_seen_subcommand_from validate' -l json -d 'Report as JSON'
complete -c weir -n '__fish_seen_subcommand_from validate' -F
