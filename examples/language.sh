#!/usr/bin/env bash
# language.sh PRETRAIN FINETUNE: makes up a little text, and runs the two examples of language with it. Each document
# speaks well of films, or ill.
set -euo pipefail

# sentences DOCUMENTS SENTENCES [LABELLED]: documents, or a table of sentences and what they say of films.
sentences()
{
    awk -v documents="$1" -v sentences="$2" -v labelled="${3-}" '
        function draw(n) { seed = seed * 16807 % 2147483647; return seed % n }
        function opinion() { return mood[good, 1 + draw(opinions)] }
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
            noun_count = split("film story music dialogue ending plot picture cast", nouns)
            opinions = split("lovely charming wonderful funny brilliant superb", list)
            for (i in list) mood[1, i] = list[i]
            split("dull boring weak clumsy terrible tedious", list)
            for (i in list) mood[0, i] = list[i]
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

sentences 300 6 >text.txt
sentences 200 1 labelled >train.csv
sentences 100 1 labelled >test.csv
"$1" text.txt bert
"$2" bert train.csv test.csv run "a superb film and a funny story."
