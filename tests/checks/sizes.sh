#!/usr/bin/env bash
# sizes.sh [ROOT]: a file has at most 900 lines, a function at most 120. A file that says "table:" in
# its first ten lines is a table and may be longer. Prints what is too large.
set -euo pipefail
root=${1:-$(dirname "$0")/../..}
cd "$root"

longest_file=900
longest_function=120

files()
{
    local folder
    for folder in include src tool tests bench examples; do
        [[ ! -d $folder ]] || find "$folder" -name '*.[ch]' -o -name '*.cu' -o -name '*.inc' \
            -o -name '*.def' -o -name '*.sh' -o -name '*.py'
    done | sort
}

large_files()
{
    awk -v most="$longest_file" '
        function judge() { if (lines > most && !table) printf "%s: %d lines\n", name, lines }
        FNR == 1 { judge(); name = FILENAME; table = 0 }
        FNR <= 10 && /table:/ { table = 1 }
        { lines = FNR }
        END { judge() }' "$@"
}

large_functions()
{
    printf '%s\n' "$@" | grep '\.[ch]$' \
        | ctags -L - -f - --languages=C --langmap=C:.c.h --kinds-C=f --fields=+ne 2>/dev/null \
        | awk -F '\t' -v most="$longest_function" '{
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) from = substr($i, 6)
                if ($i ~ /^end:/) to = substr($i, 5)
            }
            if (to - from + 1 > most) printf "%s:%d: %s has %d lines\n", $2, from, $1, to - from + 1
        }'
}

mapfile -t sources < <(files)
[[ ${#sources[@]} -gt 0 ]] || { echo "sizes: no files below $root"; exit 1; }
command -v ctags >/dev/null || { echo "sizes: ctags is missing"; exit 1; }
large=$(large_files "${sources[@]}"; large_functions "${sources[@]}")
[[ -z $large ]] || { printf '%s\n' "$large"; exit 1; }
echo "   sizes: ${#sources[@]} files"
