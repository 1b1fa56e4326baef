# Completion of netcaliper for fish: the program itself knows what fits.
function __netcaliper_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    for line in ($before[1] complete fish -- $before[2..-1] "$word" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$word"
        else
            echo $line
        end
    end
end
complete -c netcaliper -f -a '(__netcaliper_complete)'
