#!/usr/bin/env bash
# language.sh PRETRAIN FINETUNE: makes up a little text, and runs the two examples of language with it. Each document speaks
# well of a film, or ill. The sentences that are rated know half of the words for that; those of the test have the other
# half, whose meaning only the text has taught.
set -euo pipefail

# sentences DOCUMENTS SENTENCES WORDS OPINION: of the first words of their mood, the last, or all.
sentences()
{
    awk -v documents="$1" -v sentences="$2" -v words="$3" -v labelled="$4" '
        function draw(n) { seed = seed * 16807 % 2147483647; return seed % n }
        function opinion() { return mood[good, from + draw(count)] }
        function noun() { return nouns[1 + draw(noun_count)] }
        function sentence(   form) {
            form = draw(4)
            if (form == 0) return "the " noun() " was " opinion() " and the " noun() " was " opinion() "."
            if (form == 1) return "what a " opinion() " " noun() " with " opinion() " " noun() "!"
            if (form == 2) return "i found the " noun() " " opinion() ", even " opinion() "."
            return "a " opinion() " " noun() " and a " opinion() " " noun() "."
        }
        BEGIN {
            seed = 1009 * documents + 7
            noun_count = split("film story music acting dialogue ending plot picture cast script", nouns)
            half = split("lovely charming wonderful funny brilliant delightful superb gripping", list) / 2
            for (i in list) mood[1, i] = list[i]
            split("dull boring weak clumsy terrible dreadful poor tedious", list)
            for (i in list) mood[0, i] = list[i]
            from = words == "last" ? half + 1 : 1
            count = words == "all" ? 2 * half : half
            if (labelled) print "text,label"
            for (d = 0; d < documents; d++) {
                good = d % 2
                for (s = 0; s < sentences; s++)
                    if (labelled) printf "\"%s\",%s\n", sentence(), good ? "good" : "bad"
                    else print sentence()
                if (!labelled) print ""
            }
        }'
}

sentences 300 6 all "" >text.txt
sentences 120 1 first rated >train.csv
sentences 100 1 last rated >test.csv
"$1" text.txt bert
"$2" bert train.csv test.csv run "a superb film and a gripping story."
