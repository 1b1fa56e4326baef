#compdef netcaliper
# Completion of netcaliper for zsh: the program itself knows what fits.
_netcaliper() {
    local -a found
    local line word help files=
    for line in "${(@f)$("$words[1]" complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            word=${line%%$'\t'*}
            help=
            [[ $line == *$'\t'* ]] && help=${line#*$'\t'}
            found+=("${word//:/\\:}${help:+:$help}")
        fi
    done
    (( $#found )) && _describe -V netcaliper found
    [[ -n $files ]] && _files
}
if [ "$funcstack[1]" = "_netcaliper" ]; then
    _netcaliper "$@"
else
    compdef _netcaliper netcaliper
fi
