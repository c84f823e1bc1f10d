# Completion of `brood` for fish: commands, options, runs, agents, keys and their values.
#
#     source scripts/completion/brood.fish
#
# `brood complete` prints the candidates; where it prints none, fish completes files.

function __brood_find
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    # In a checkout, scripts/brood would build first.
    if test (basename (dirname $program)) = scripts
        set program (dirname $program)/../build/supervisor/brood
    end
    set -g __brood_found ($program complete -- $words[2..-1] 2>/dev/null)
    test (count $__brood_found) -gt 0
end
complete -c brood -f -n __brood_find -a '$__brood_found'
