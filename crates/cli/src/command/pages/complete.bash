# Completion of netcaliper for bash: the program itself knows what fits.
_netcaliper() {
    local line word=${COMP_WORDS[COMP_CWORD]}
    [ "$word" != = ] || word=
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = :files ]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do
                COMPREPLY+=("$line")
            done < <(compgen -f -- "$word")
        else
            COMPREPLY+=("$line")
        fi
    done < <("${COMP_WORDS[0]}" complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o nosort -F _netcaliper netcaliper 2>/dev/null || complete -F _netcaliper netcaliper
