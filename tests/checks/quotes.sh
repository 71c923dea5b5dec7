#!/usr/bin/env bash
# quotes.sh [ROOT]: what README.md, docs/adding.md and docs/requirements/ quote is really there. A block of C names its
# file (```c examples/plugin.c); its lines follow each other in that file, blocks of lines apart where the
# quote says "...". Links to files lead somewhere. Prints what does not.
set -euo pipefail
root=${1:-$(dirname "$0")/../..}
cd "$root"

mapfile -t pages < <(find README.md docs/adding.md docs/requirements -name '*.md' 2>/dev/null | sort)
[[ ${#pages[@]} -gt 0 ]] || { echo "quotes: no pages below $root/docs"; exit 1; }

# A block inside a list is indented, as its fence is.
wrong=$(awk '
    function load(file,    line) {
        lines = 0
        while ((getline line < file) > 0) source[++lines] = line
        close(file)
        return lines
    }
    FNR == 1 { inside = 0 }
    !inside && match($0, /^ *```c/) {
        indent = RLENGTH - 4
        file = $2
        inside = 1
        at = 0
        jump = 1
        begun = FNR
        if (file == "") printf "%s:%d: a block of C names no file\n", FILENAME, FNR
        else if (!load(file)) printf "%s:%d: there is no %s\n", FILENAME, FNR, file
        next
    }
    inside && /^ *```$/ { inside = 0; quotes++; next }
    !inside || !lines || file == "" { next }
    {
        text = substr($0, indent + 1)
        if (text == "...") { jump = 1; next }
        from = at + 1
        to = jump ? lines : from
        for (found = 0; from <= to && from <= lines; from++)
            if (source[from] == text) { found = from; break }
        if (!found) {
            printf "%s:%d: %s does not say here: %s\n", FILENAME, FNR, file, text
            lines = 0
            next
        }
        at = found
        jump = 0
    }
    END { printf "quotes %d\n", quotes }' "${pages[@]}")
count=${wrong##*quotes }
wrong=${wrong%quotes *}

for page in "${pages[@]}"; do
    while read -r link; do
        file=${link%%#*}
        [[ -z $file || $file == *:* || -e $(dirname "$page")/$file ]] \
            || wrong+="$page: there is no $link"$'\n'
    done < <(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(|\)$//g')
done
[[ -z $wrong ]] || { printf '%s' "$wrong"; exit 1; }
echo "   quotes: $count in ${#pages[@]} pages"
