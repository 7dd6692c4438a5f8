# Shell functions shared by the demonstrations: print a command as a person would type it, run it,
# and check that nothing is left behind.
# shellcheck shell=sh

# prompt COMMAND...: print the command as a person would type it.
prompt() {
    printf '\n$'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=,-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}

show() {
    prompt "$@"
    "$@"
}

# nothing WHERE COMMAND...: fail if the command prints anything.
nothing() {
    where=$1
    shift
    found=$("$@" 2>/dev/null) || :
    printf '%-24s %s\n' "$where" "${found:-nothing}"
    [ -z "$found" ]
}
