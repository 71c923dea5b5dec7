#!/usr/bin/env bash
# layers.sh [ROOT]: every #include goes to its own layer or to a lower one. The list below is that
# of docs/design.md; layers on one line do not know each other. include/tilth/X/, include/tilth/sys/X/ and
# src/X/ are X; include/tilth/tilth.h and sys/sys.h gather all and are for users and the tool. A header of src/X/ is
# X's own, but for those in src/X/inner/, which the layers above may include. Headers outside of sys/ include none of
# sys/. Prints what breaks the rule.
set -euo pipefail
root=${1:-$(dirname "$0")/../..}
cd "$root"

layers='
16 tool
15 builtin
14 zoo board
13 train
12 nn data
11 text
10 io
9 comm
8 graph
7 cuda
6 cpu
5 nest
4 ops check
3 core
2 desc
1 base'

files()
{
    local folder
    for folder in include src tool; do
        [[ ! -d $folder ]] || find "$folder" -name '*.[ch]' -o -name '*.inc' -o -name '*.def' -o -name '*.cu'
    done | sort
}

mapfile -t sources < <(files)
[[ ${#sources[@]} -gt 0 ]] || { echo "layers: no source files below $root"; exit 1; }

awk -v layers="$layers" '
BEGIN {
    count = split(layers, lines, "\n")
    for (i = 1; i <= count; i++) {
        words = split(lines[i], word, " ")
        for (w = 2; w <= words; w++) rank[word[w]] = word[1] + 0
    }
}
function offend(why) { printf "%s:%d: %s\n", FILENAME, FNR, why; bad = 1 }

# "a/b/../c" becomes "a/c".
function straighten(path,   parts, n, i, out, top) {
    n = split(path, parts, "/"); top = 0
    for (i = 1; i <= n; i++) {
        if (parts[i] == "" || parts[i] == ".") continue
        if (parts[i] == ".." && top > 0) { top--; continue }
        out[++top] = parts[i]
    }
    path = ""
    for (i = 1; i <= top; i++) path = path (i > 1 ? "/" : "") out[i]
    return path
}

# The layer a path belongs to: "" for what is not ours, "*" for the header that gathers all.
function layer_of(path,   parts) {
    if (path == "include/tilth/tilth.h" || path == "include/tilth/sys/sys.h") return "*"
    split(path, parts, "/")
    if (parts[1] == "tool") return "tool"
    if (parts[1] == "src") return parts[2]
    if (parts[1] == "include" && parts[2] == "tilth") return parts[3] == "sys" ? parts[4] : parts[3]
    return ""
}

# Where an #include leads: beside the file when it is there, else below src, as the build looks.
function target_of(name, quoted,   beside, first) {
    if (name ~ /^tilth\//) return "include/" name
    if (!quoted) return ""
    beside = FILENAME
    sub(/[^\/]*$/, "", beside)
    beside = straighten(beside name)
    if ((getline line < beside) >= 0) { close(beside); return beside }
    return "src/" straighten(name)
}

FNR == 1 {
    own = layer_of(FILENAME)
    if (own != "*" && !(own in rank)) offend("the folder \"" own "\" is in no layer")
}
own != "*" && /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    name = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quoted = substr(name, 1, 1) == "\""
    name = substr(name, 2)
    sub(/[>"].*/, "", name)
    path = target_of(name, quoted)
    to = layer_of(path)
    if (FILENAME ~ /^include\// && FILENAME !~ /^include\/tilth\/sys\// && path ~ /^include\/tilth\/sys\//)
        offend(name " is for authors of backends; headers outside of sys/ include none of it")
    if (to == "" || to == own) next
    if (to == "*") {
        if (own != "tool") offend(own " includes " name ", which gathers all layers")
    } else if (!(to in rank)) {
        offend("\"" name "\" is in no layer")
    } else if (rank[to] == rank[own]) {
        offend(own " includes " to " (" name "), its neighbour")
    } else if (rank[to] > rank[own]) {
        offend(own " (layer " rank[own] ") includes " to " (layer " rank[to] "): " name)
    } else if (path ~ /^src\// && path !~ /^src\/[a-z]+\/inner\//) {
        offend(own " includes " name ", a private header of " to "; what it shows stands in src/" to "/inner/")
    }
}
END { exit bad }
' "${sources[@]}"
echo "   layers: ${#sources[@]} files"
