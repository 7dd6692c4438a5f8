# What both demonstrations print: each command as a person would type it, then its output.
# shellcheck shell=sh

# prompt COMMAND...: as a person would type it.
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

# nothing WHERE COMMAND...: the command must print nothing.
nothing() {
    where=$1
    shift
    found=$("$@" 2>/dev/null) || :
    printf '%-24s %s\n' "$where" "${found:-nothing}"
    [ -z "$found" ]
}
