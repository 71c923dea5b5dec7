/* A small BERT that learns a language from text of one's own: from documents to a vocabulary, to
 * records with hidden words, to a run.
 *
 *     $ example_pretrain_bert text.txt bert
 *
 * The text has a sentence on each line and an empty line between documents. The folder gets
 * vocab.txt, the records and the checkpoints; finetune_sentence.c goes on from there. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/tilth.h>

enum { MOST_WORDS = 8000, LONGEST_WORD = 100, LENGTH = 32, HIDDEN_WORDS = 5 };

/* --- the vocabulary: characters, of which words can be put together, and usual words ---------- */

typedef struct word {
    const char *text;
    int64_t *count;
} word;

static int by_count(const void *a, const void *b)
{
    const word *x = a, *y = b;
    if (*x->count != *y->count) return *x->count < *y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

static tl_status count_word(tl_map *counts, tl_arena *arena, const char *text, size_t length)
{
    char lowered[LONGEST_WORD + 1];
    if (length > LONGEST_WORD) return TL_OK; // the tokenizer does not know such words either
    for (size_t i = 0; i < length; i++) lowered[i] = (char)tolower((unsigned char)text[i]);
    lowered[length] = '\0';
    int64_t *count = tl_map_get(counts, lowered);
    if (!count) {
        if (!(count = tl_arena_alloc(arena, sizeof *count))) return TL_ENOMEM;
        *count = 0;
        TL_TRY(tl_map_set(counts, lowered, count));
    }
    ++*count;
    return TL_OK;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Words as the tokenizer splits them: letters and digits, or one sign. Other letters than those of
 * ASCII are left out here, for brevity: words that have some stay unknown. */
static tl_status count_words(tl_map *counts, tl_arena *arena, const char *text, size_t size)
{
    for (size_t at = 0, from; at < size;) {
        from = at;
        while (at < size && is_letter(text[at])) at++;
        if (at > from) TL_TRY(count_word(counts, arena, text + from, at - from));
        else at++; // signs are in the vocabulary as they are
    }
    return TL_OK;
}

static tl_status write_vocabulary(const char *to, const tl_map *counts, tl_arena *arena)
{
    const int64_t count = tl_map_count(counts);
    tl_str out = TL_STR_INIT;
    word *words = tl_arena_array(arena, count, sizeof *words);
    if (!words) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        words[i] = (word){tl_map_key(counts, i), tl_map_at(counts, i)};
    qsort(words, (size_t)count, sizeof *words, by_count);
    tl_str_add(&out, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"); // [PAD] is 0, as padding is
    for (char c = '!'; c <= '~'; c++) {
        if (c >= 'A' && c <= 'Z') continue;
        tl_str_addf(&out, "%c\n", c);
        if (is_letter(c)) tl_str_addf(&out, "##%c\n", c); // within a word
    }
    for (int64_t i = 0; i < count && i < MOST_WORDS; i++)
        if (words[i].text[1]) tl_str_addf(&out, "%s\n", words[i].text);
    tl_status st = tl_str_status(&out);
    if (st == TL_OK) st = tl_file_write_atomic(to, tl_str_text(&out), out.length);
    tl_str_deinit(&out);
    return st;
}

static tl_status make_vocabulary(const char *to, const char *from, tl_arena *arena)
{
    tl_map counts = TL_MAP_INIT;
    tl_file_mapping text = TL_FILE_MAPPING_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_file_map(&text, from));
    TL_TRY_DONE(st, count_words(&counts, arena, text.data, text.size));
    st = write_vocabulary(to, &counts, arena);
done:
    tl_file_unmap(&text);
    tl_map_deinit(&counts);
    return st;
}

/* --- records: sequences of two parts, in which some words are hidden -------------------------- */

static tl_status write_records(const char *to, const tl_documents *documents, int64_t passes,
                               int64_t seed)
{
    tl_pretraining *examples;
    const tl_pretraining_config how = {.base = {.max_predictions_per_seq = HIDDEN_WORDS},
                                       .max_seq_length = LENGTH,
                                       .random_seed = TL_SET(seed),
                                       .dupe_factor = passes};
    TL_TRY(tl_pretraining_new(&examples, documents, &how));
    printf("%s: %lld examples\n", to, (long long)tl_pretraining_count(examples));
    tl_status st = tl_pretraining_write(examples, &to, 1, NULL);
    tl_pretraining_free(&examples);
    return st;
}

/* --- the run ---------------------------------------------------------------------------------- */

static const char experiment[] = "bert/pretraining";
static const char settings[] =
    "task:\n"
    "  model:\n"
    "    encoder:\n"
    "      bert: {hidden_size: 32, num_layers: 2, num_attention_heads: 2, intermediate_size: 64,\n"
    "             max_position_embeddings: 32}\n"
    "    cls_heads: [{inner_dim: 32, num_classes: 2, dropout_rate: 0.1, name: next_sentence}]\n"
    "  train_data: {seq_length: 32, max_predictions_per_seq: 5, global_batch_size: 32}\n"
    "  validation_data: {seq_length: 32, max_predictions_per_seq: 5, global_batch_size: 32}\n"
    "trainer:\n"
    "  train_steps: 400\n"
    "  steps_per_loop: 100\n"
    "  summary_interval: 100\n"
    "  checkpoint_interval: 400\n"
    "  validation_interval: 400\n"
    "  optimizer_config:\n"
    "    learning_rate: {polynomial: {initial_learning_rate: 0.005, decay_steps: 400}}\n"
    "    warmup: {polynomial: {warmup_steps: 40}}\n"
    "tilth: {seed: 1}\n";

/* Settings as text; what the program has found out, by the names that commands have too. */
static tl_status configure(tl_config **out, const tl_registry *registry, tl_arena *arena,
                           int64_t words, const char *train, const char *validation)
{
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    options.experiment = experiment;
    TL_TRY(tl_experiment_begin(out, registry, &options));
    TL_TRY(tl_config_yaml(*out, settings, "settings"));
    const char *const found[] = {
        tl_arena_printf(arena, "task.model.encoder.bert.vocab_size=%lld", (long long)words),
        tl_arena_printf(arena, "task.train_data.input_path=%s", train),
        tl_arena_printf(arena, "task.validation_data.input_path=%s", validation),
    };
    for (int i = 0; i < (int)TL_COUNT(found); i++) {
        if (!found[i]) return TL_ENOMEM;
        TL_TRY(tl_config_word(*out, found[i], "pretrain_bert"));
    }
    return tl_experiment_finish(*out, registry, experiment);
}

static tl_status pretrain(const char *text, const char *folder, tl_arena *arena)
{
    const char *vocabulary = tl_path_join(arena, folder, "vocab.txt");
    const char *train = tl_path_join(arena, folder, "train.tfrecord");
    const char *validation = tl_path_join(arena, folder, "validation.tfrecord");
    tl_tokenizer *tokenizer = NULL;
    tl_documents *documents = NULL;
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_logs *logs = NULL;
    tl_status st;
    if (!vocabulary || !train || !validation) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_mkdirs(folder));
    TL_TRY_DONE(st, make_vocabulary(vocabulary, text, arena));
    TL_TRY_DONE(
        st, tl_wordpiece_new(&tokenizer, &(tl_wordpiece_args){.vocab = vocabulary,
                                                              .rules = TL_WORDPIECE_MODEL_GARDEN}));
    TL_TRY_DONE(st, tl_documents_new(&documents, tokenizer, NULL));
    TL_TRY_DONE(st, tl_documents_add_file(documents, text));
    TL_TRY_DONE(st, write_records(train, documents, 10, 1));
    TL_TRY_DONE(st, write_records(validation, documents, 1, 2)); // the text with other words hidden

    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(
        st, configure(&config, registry, arena, tl_tokenizer_count(tokenizer), train, validation));
    TL_TRY_DONE(st, tl_logs_new(&logs));
    const tl_train_flags flags = {.mode = "train_and_eval", .model_dir = folder};
    const tl_run_args run = {.experiment = experiment}; // the folder remembers what it is
    TL_TRY_DONE(
        st,
        tl_launch(logs, &(tl_launch_args){
                            .registry = registry, .config = config, .flags = &flags, .run = &run}));
    printf("of the hidden words %.1f %% are guessed, of the pairs of sentences %.1f %%\n",
           100 * tl_logs_number_or(logs, "masked_lm_accuracy", 0),
           100 * tl_logs_number_or(logs, "next_sentence_accuracy", 0));
done:
    tl_logs_free(&logs);
    tl_config_free(&config);
    tl_registry_free(&registry);
    tl_documents_free(&documents);
    tl_tokenizer_free(&tokenizer);
    return st;
}

int main(int argc, char **argv)
{
    tl_arena *arena = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: %s TEXT FOLDER\n", argv[0]);
        return 2;
    }
    tl_status st = tl_arena_new(&arena);
    if (st == TL_OK) st = pretrain(argv[1], argv[2], arena);
    if (st != TL_OK) fprintf(stderr, "%s: %s\n", argv[0], tl_error_message());
    tl_arena_free(&arena);
    return tl_exit_code(st);
}
