#!/usr/bin/env bash
# Makes ten mistakes with the real program and compares what it says with docs/mistakes.md.
#     tests/tool/mistakes.sh PROGRAM            fails when the page is not what the program says
#     tests/tool/mistakes.sh PROGRAM --write    writes the page
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$(realpath "$1")
page=$root/docs/mistakes.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# mistake TITLE COMMAND... : a row of the page; `tilth` is the program.
mistake()
{
    local title=$1 text status=0
    shift
    text=$("$program" "${@:2}" 2>&1 >/dev/null) || status=$?
    [[ $status == 2 ]] || { echo "mistakes: '$title' gave exit code $status: $text" >&2; exit 1; }
    [[ $text != *$'\n'* ]] || { echo "mistakes: '$title' gave several lines" >&2; exit 1; }
    printf '| %s | `%s` | `%s` |\n' "$title" "$*" "$text"
}

plugin()
{
    cc -shared -fPIC -I"$root/include" -o "$1" -x c - && chmod o-w "$1"
}

write_inputs()
{
    printf 'trainer:\n  train_steps: many\n' >type.yaml
    printf 'trainer:\n  checkpoint_interval: 100\n  steps_per_loop: 0\n' >range.yaml
    printf 'trainer:\n  train_steps: 100\n  train_steps: 200\n' >twice.yaml
    printf "include 'b.gin'\n" >a.gin
    printf "include 'a.gin'\n" >b.gin
    plugin libold.so <<'C'
#include <tilth/tilth.h>

const tl_module tl_module_main = {TL_ABI + 5, sizeof(tl_module), "old", NULL, 0};
C
    plugin liblayers.so <<'C'
#include <tilth/tilth.h>
typedef struct args { int64_t units; } args;
static const tl_field fields[] = {TL_F(args, units, .i = 8, .help = "width"), TL_F_END};
static const tl_desc desc = {.name = "Dense", .help = "a layer", .size = sizeof(args), .fields = fields};
static tl_status call(void **out, tl_gin *gin, const void *given)
{
    (void)gin, (void)given;
    *out = NULL;
    return TL_OK;
}
static const tl_configurable_class dense = {.cls = TL_CONFIGURABLE("vision.Dense", &desc), .call = call};
static const tl_configurable_class other = {.cls = TL_CONFIGURABLE("text.Dense", &desc), .call = call};
static const tl_entry entries[] = {{&tl_kind_configurable, &dense.cls}, {&tl_kind_configurable, &other.cls}};

const tl_module tl_module_main = {TL_MODULE_HEAD("layers"), entries, TL_COUNT(entries)};
C
}

all_mistakes()
{
    local mock=(tilth params --experiment=mock)
    cat <<'TEXT'
# Ten mistakes, and what the program says

`tests/tool/mistakes.sh` writes this page, and the test command checks that it is still true. Each mistake ends with exit
code 2 (the command line or the configuration is wrong), and the program writes nothing to standard output.

| mistake | command | what it says |
|---|---|---|
TEXT
    mistake "a typo" "${mock[@]}" --params_override=trainer.train_stps=100
    mistake "a wrong type" "${mock[@]}" --config_file=type.yaml
    mistake "out of range" "${mock[@]}" --config_file=range.yaml
    mistake "a missing file" "${mock[@]}" --config_file=missing.yaml
    mistake "a key given twice" "${mock[@]}" --config_file=twice.yaml
    mistake "a bad list index" "${mock[@]}" \
        trainer.optimizer_config.learning_rate.stepwise.boundaries=[100,200] \
        trainer.optimizer_config.learning_rate.stepwise.boundaries[5]=300
    mistake "an unknown gin parameter" "${mock[@]}" --plugin=./liblayers.so \
        --gin_params=vision.Dense.unit=4
    mistake "a gin selector that fits two" "${mock[@]}" --plugin=./liblayers.so \
        --gin_params=Dense.units=4
    mistake "a plug-in built for another ABI" "${mock[@]}" --plugin=./libold.so
    mistake "files that include each other" "${mock[@]}" --gin_file=a.gin
}

write_inputs
all_mistakes >page.md
if [[ ${2:-} == --write ]]; then
    cp page.md "$page"
else
    diff -u "$page" page.md || { echo "docs/mistakes.md is not what the program says" >&2; exit 1; }
fi
