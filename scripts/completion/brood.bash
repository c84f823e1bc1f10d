# Completion of `brood` for bash: commands, options, runs, agents, keys and their values.
#
#     source scripts/completion/brood.bash
#
# `brood complete` prints the candidates; where it prints none, bash completes files.

_brood() {
    local program=$1 line=${COMP_LINE:0:COMP_POINT} words candidates word head
    # In a checkout, scripts/brood would build first.
    if [ "$(basename "$(dirname "$program")")" = scripts ]; then
        program=$(dirname "$program")/../build/supervisor/brood
    fi
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    mapfile -t candidates < <("$program" complete -- "${words[@]:1}" 2>/dev/null)
    # bash takes `=` and `:` for ends of words and replaces what follows the last of them; with
    # `@` a word begins, which is replaced, too.
    head=${word%"${word##*[=:]}"}
    word=${word#"$head"}
    [[ $word == *@* ]] && head+=${word%@*}
    candidates=("${candidates[@]#"$head"}")
    COMPREPLY=("${candidates[@]}")
    if [ ${#candidates[@]} -eq 1 ] && [[ ${candidates[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _brood brood scripts/brood ./scripts/brood
