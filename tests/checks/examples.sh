#!/usr/bin/env bash
# examples.sh [ROOT]: examples in the comments of public headers compile. An example is what is indented by five spaces
# or more behind the comment's star, with a " * done:" between its lines; a paragraph of it is C when one of its lines
# ends with a semicolon (or with one and a brace), else it is a table, YAML or a command. "..." stands for what is left out: a line that begins
# with it is skipped, at the end of a line it is a statement, before a closing brace it is nothing. What an example
# names and does not declare stands in tests/checks/examples.h, for all headers or for one. Everything else that it
# names must be there: types, functions, members, arguments. Prints what the compiler says, at the header's lines.
set -euo pipefail
root=${1:-$(dirname "$0")/../..}
cd "$root"

mapfile -t headers < <(find include/tilth -name '*.h' | sort)
[[ ${#headers[@]} -gt 0 ]] || { echo "examples: no headers below $root/include"; exit 1; }
around=tests/checks/examples.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each header becomes a function, and each of its examples a block in it: functions within functions keep names apart.
awk -v around="$around" '
    function emit(text) { print text }

    # What stands for what is left out.
    function complete(line) {
        if (line ~ /^[ \t]*\.\.\./) return ""
        gsub(/\{ ?\.\.\. ?\}/, "{}", line)
        gsub(/, \.\.\. ?\}/, "}", line)
        gsub(/; \.\.\. \}/, "; }", line)
        if (line ~ /\.\.\.;?[ \t]*(\/\/.*)?$/) sub(/\.\.\.;?[ \t]*(\/\/.*)?$/, "{}", line)
        return line
    }
    function end_paragraph(   i) {
        if (is_c) {
            if (!open) {
                emit("{\n__label__ done;")
                open = 1
                examples++
            }
            for (i = 1; i <= lines; i++) {
                if (paragraph[i] ~ /^done:/) labelled = 1
                emit("#line " number[i] " \"" FILENAME_NOW "\"")
                emit(complete(paragraph[i]))
            }
        }
        lines = is_c = 0
    }
    function end_example() {
        end_paragraph()
        if (!open) return
        emit(labelled ? ";\n}" : "done:;\n}")
        open = labelled = 0
    }
    function add(text) {
        sub(/ *\*\/$/, "", text)
        paragraph[++lines] = text
        number[lines] = FNR
        code = text
        sub(/[ \t]*\/\/.*/, "", code)
        if (code ~ /;( \})?$/) is_c = 1
    }

    BEGIN {
        # The first part is for all; "// include/tilth/..." begins what is for one header.
        while ((getline line < around) > 0) {
            row++
            if (line ~ /^\/\/ include\/tilth\//) {
                part = substr(line, 4)
                known[part] = 1
                line = "#line " row + 1 " \"" around "\""
            }
            if (part == "") emit(line)
            else own[part] = own[part] line "\n"
        }
        # Functions within functions are not static, and neither are their tables.
        emit("#define static")
    }
    FNR == 1 {
        if (FILENAME_NOW != "") { end_example(); emit("return TL_OK;\n}") }
        FILENAME_NOW = FILENAME
        emit("tl_status example_" ++files "(void)\n{\ntl_status st = TL_OK;")
        if (FILENAME in own) emit(own[FILENAME])
        delete known[FILENAME]
        comment = 0
    }
    !comment && /^[ \t]*\/\*/ { comment = 1 }
    {
        if (comment && match($0, /^ \*     +/) && $0 !~ /^ \* *\*\//) add(substr($0, 8))
        else if (comment && /^ \* done:/) add("done:")
        else if (comment && /^ \*$/) end_paragraph()
        else end_example()
        if (comment && /\*\//) { end_example(); comment = 0 }
    }
    END {
        end_example()
        emit("return TL_OK;\n}")
        for (name in known) {
            printf "%s: there is no %s any more\n", around, name > "/dev/stderr"
            bad = 1
        }
        printf "%d\n", examples > "/dev/fd/3"
        exit bad
    }
' "${headers[@]}" 3>"$work/count" >"$work/examples.c"

# Fragments leave variables unused and functions without a return; what they name is what is asked for here.
LC_ALL=C gcc -std=gnu17 -Iinclude -fsyntax-only -Werror -Wall -Wextra -Wno-unused -Wno-unused-parameter -Wno-unused-result \
    -Wno-return-type -Wno-main -Wno-missing-field-initializers "$work/examples.c"
echo "   examples: $(cat "$work/count") in ${#headers[@]} headers"
