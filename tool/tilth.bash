# Completion of `tilth` for bash: commands, flags, names, keys, all asked from the program itself.
# Installed as share/bash-completion/completions/tilth; or: source tilth.bash

# _tilth_ask ARGUMENT...: what the program says, without its complaints.
_tilth_ask()
{
    "$_tilth_program" "$@" 2>/dev/null
}

_tilth_commands()
{
    _tilth_ask help | sed -n '/^Commands:/,/^$/s/^  \([a-z_]*\) .*/\1/p'
}

# _tilth_flags COMMAND: "--name=" for flags that take a value, "--name" and "--noname" for others.
_tilth_flags()
{
    _tilth_ask "$1" --help | sed -n \
        -e 's/^  \(-., \)\{0,1\}--\[no\]\([a-z0-9_-]*\).*/--\2\n--no\2/p' \
        -e 's/^  \(-., \)\{0,1\}--\([a-z0-9_-]*\)=.*/--\2=/p' \
        -e 's/^  \(-., \)\{0,1\}--\([a-z0-9_-]*\) .*/--\2/p'
    echo --helpfull
}

# _tilth_experiment WORD...: the experiment that the command line names.
_tilth_experiment()
{
    local previous=
    while [[ $# -gt 0 ]]; do
        [[ $1 == --experiment=?* ]] && { echo "${1#*=}"; return; }
        [[ $previous == --experiment ]] && { echo "$1"; return; }
        previous=$1
        shift
    done
}

# _tilth_keys PREFIX SUFFIX KIND:NAME: the dotted keys, for --key= and key=.
_tilth_keys()
{
    _tilth_ask describe "$3" --names | sed "s/.*/$1&$2/"
}

# _tilth_net_keys PREFIX SUFFIX: those of LiBai's configuration.
_tilth_net_keys()
{
    _tilth_ask train_net --helpfull \
        | sed -n "/^Keys,/,\$ { /: section\$/d; s/^\([a-z_.]*\): .*/$1\1$2/p; }"
}

# _tilth_value FLAG BEGINNING: what can stand behind the flag.
_tilth_value()
{
    case $1 in
    --experiment) _tilth_ask list experiments --names ;;
    --mode) printf '%s\n' train eval train_and_eval continuous_eval train_and_post_eval ;;
    --rules) printf '%s\n' hf model_garden tf_text bert ;;
    --stderrthreshold) printf '%s\n' debug info warning error fatal ;;
    --log_dir | --model_dir | --input_data_dir) compgen -d -- "$2" ;;
    --grid | --random) # keys of the experiment, which stands before it
        [[ -z $_tilth_experiment_named ]] || _tilth_keys '' = "experiment:$_tilth_experiment_named" ;;
    --config_file | --config-file | --gin_file | --trace | --graph | --passes | --params_override | --plugin | --flagfile | --out | --svg | --vocab | --vocab_file | --input_file | --output_file | --train_file | --eval_file | --test_file | --classes | --meta_data_file_path | --*_data_output_path) compgen -f -- "$2" ;;
    esac
}

# _tilth_words COMMAND WORD...: what can stand where no flag stands; the last word is unfinished.
_tilth_words()
{
    local command=$1 experiment
    shift
    case $command in
    help) _tilth_commands ;;
    list) _tilth_ask list kinds --names; echo kinds ;;
    ckpt)
        if [[ $# -gt 1 ]]; then compgen -f -- "${!#}"; else printf '%s\n' show diff verify convert; fi ;;
    data)
        if [[ $# -gt 1 ]]; then compgen -f -- "${!#}"; else printf '%s\n' show convert coco voc cityscapes annotations pretraining finetuning; fi ;;
    train_net) _tilth_net_keys '' = ;;
    predict | tokenize | eval_coco) compgen -f -- "${!#}" ;;
    compare | plot) compgen -d -- "${!#}" ;;
    describe)
        if [[ $# -gt 1 ]]; then
            # A name that several kinds have is most likely the experiment.
            _tilth_ask describe "${@:1:$#-1}" --names || _tilth_ask describe "experiment:$1" --names
        else
            _tilth_ask list --names
            _tilth_ask list --names | sed 's/^[^:]*://' | sort -u
            _tilth_ask list kinds --names
        fi ;;
    *)
        experiment=$(_tilth_experiment "$@")
        [[ -z $experiment ]] || _tilth_keys '' = "experiment:$experiment" ;;
    esac
}

_tilth()
{
    local line=${COMP_LINE:0:COMP_POINT} words current previous candidates flag experiment
    local _tilth_program=${COMP_WORDS[0]/#\~/$HOME}
    read -ra words <<<"$line"
    # bash cuts words at "=" and ":"; here they are what blanks separate.
    current=${line##*[[:space:]]}
    [[ -z $current ]] && words+=("")
    previous=${words[${#words[@]}-2]}
    local _tilth_experiment_named
    _tilth_experiment_named=$(_tilth_experiment "${words[@]}")

    if [[ ${#words[@]} -le 2 ]]; then
        candidates=$(_tilth_commands; printf '%s\n' --help --version)
    elif [[ $current == --*=* ]]; then
        flag=${current%%=*}
        candidates=$(_tilth_value "$flag" "${current#*=}" | sed "s|^|$flag=|")
    elif [[ $previous == --* && $previous != *=* && -n $(_tilth_value "$previous" "") ]]; then
        flag=$previous
        candidates=$(_tilth_value "$flag" "$current")
    elif [[ $current == --*.* && ${words[1]} == train_net ]]; then
        candidates=$(_tilth_net_keys -- =)
    elif [[ $current == --*.* ]]; then
        experiment=$(_tilth_experiment "${words[@]}")
        [[ -z $experiment ]] || candidates=$(_tilth_keys -- = "experiment:$experiment")
    elif [[ $current == -* ]]; then
        candidates=$(_tilth_flags "${words[1]}")
    else
        local rest=() word
        for word in "${words[@]:2}"; do
            [[ $word == -* && ${words[1]} != params ]] || rest+=("$word")
        done
        candidates=$(_tilth_words "${words[1]}" "${rest[@]}")
    fi

    local candidate kept=${current##*[=:]} cut
    cut=${current:0:${#current}-${#kept}}
    COMPREPLY=()
    while IFS= read -r candidate; do
        [[ -n $candidate && $candidate == "$current"* ]] || continue
        # What stands before the last "=" or ":" is a word of its own to bash and stays.
        COMPREPLY+=("${candidate:${#cut}}")
    done <<<"$candidates"
    case $flag in # folders then end with a slash, and blanks are escaped
    --*[_-]file | --*_dir | --params_override | --plugin | --flagfile)
        compopt -o filenames 2>/dev/null ;;
    esac
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _tilth tilth
