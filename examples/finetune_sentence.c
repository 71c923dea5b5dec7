/* A BERT that was pre-trained (pretrain_bert.c) learns to judge sentences, is tested with others,
 * and is asked about one.
 *
 *     $ example_finetune_sentence bert train.csv test.csv run "what a lovely film"
 *
 * The tables have columns `text` and `label`. */
#include <stdlib.h>
#include <string.h>

#include <tilth/tilth.h>

enum { LENGTH = 32 };

/* --- records ---------------------------------------------------------------------------------- */

static tl_status write_records(const char *to, const char *from, const tl_tokenizer *tokenizer,
                               tl_text_rows_args columns, tl_strings classes)
{
    tl_classification_result done;
    TL_TRY(tl_classification_write(to, from,
                                   &(tl_classification_args){.tokenizer = tokenizer,
                                                             .max_seq_length = LENGTH,
                                                             .columns = columns,
                                                             .classes = classes},
                                   &done));
    printf("%s: %lld sentences, %lld of them cut\n", to, (long long)done.rows, (long long)done.cut);
    return TL_OK;
}

/* --- the run ---------------------------------------------------------------------------------- */

static const char experiment[] = "bert/sentence_prediction";
static const char settings[] =
    "task:\n"
    "  train_data: {seq_length: 32, global_batch_size: 16}\n"
    "  validation_data: {seq_length: 32, global_batch_size: 32}\n"
    "trainer:\n"
    "  train_steps: 120\n"
    "  steps_per_loop: 60\n"
    "  summary_interval: 60\n"
    "  checkpoint_interval: 120\n"
    "  validation_interval: 120\n"
    "  optimizer_config:\n"
    "    learning_rate: {polynomial: {initial_learning_rate: 0.001, decay_steps: 120}}\n"
    "    warmup: {polynomial: {warmup_steps: 12}}\n"
    "tilth: {seed: 1}\n";

typedef struct plan {
    const tl_finished *bert; /* the run that pre-trained */
    const char *folder;      /* its */
    const char *train, *test;
    int64_t classes;
} plan;

/* Settings as text; paths by the names that commands have too; and what C knows in C: the encoder
 * is the one that was pre-trained. */
static tl_status configure(tl_config **out, const tl_registry *registry, tl_arena *arena,
                           const plan *p)
{
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    options.experiment = experiment;
    TL_TRY(tl_experiment_begin(out, registry, &options));
    TL_TRY(tl_config_yaml(*out, settings, "settings"));
    const char *const found[] = {
        tl_arena_printf(arena, "task.init_checkpoint=%s", p->folder),
        tl_arena_printf(arena, "task.train_data.input_path=%s", p->train),
        tl_arena_printf(arena, "task.validation_data.input_path=%s", p->test),
    };
    for (int i = 0; i < (int)TL_COUNT(found); i++) {
        if (!found[i]) return TL_ENOMEM;
        TL_TRY(tl_config_word(*out, found[i], "finetune_sentence"));
    }
    const tl_experiment_config *params = tl_config_edit(*out);
    const tl_task_config *before = p->bert->params->task.value, *now = params->task.value;
    tl_sentence_model_config *model = now->model.value;
    model->encoder = ((const tl_pretrainer_config *)before->model.value)->encoder;
    model->num_classes = p->classes;
    return tl_experiment_finish(*out, registry, experiment);
}

/* --- a question ------------------------------------------------------------------------------- */

/* The probability of each class. */
static tl_status ask(float *shares, int64_t classes, const tl_finished *run, const int32_t *ids,
                     int64_t count)
{
    int32_t words[LENGTH] = {0}, mask[LENGTH] = {0}, types[LENGTH] = {0};
    const tl_shape shape = TL_SHAPE(1, LENGTH);
    tl_ctx *c;
    tl_tensors in = {0}, out = {0};
    for (int64_t i = 0; i < count && i < LENGTH; i++) words[i] = ids[i], mask[i] = 1;
    TL_TRY(tl_ctx_new(&c, tl_strategy_engine(run->strategy)));
    tl_tensors_put(c, &in, "input_word_ids", tl_from(c, TL_I32, shape, words));
    tl_tensors_put(c, &in, "input_mask", tl_from(c, TL_I32, shape, mask));
    tl_tensors_put(c, &in, "input_type_ids", tl_from(c, TL_I32, shape, types));
    tl_call_all(c, run->trainer->model, &in, &out);
    tl_tensor *scores = tl_tensors_get(c, &out, "sentence_prediction");
    tl_tensor *answer = tl_softmax(c, scores, -1);
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_tensor_get(answer, shares, (size_t)classes * sizeof *shares);
    tl_ctx_free(&c);
    return st;
}

static tl_status judge(const char *sentence, const char *folder, tl_registry *registry,
                       const tl_tokenizer *tokenizer, tl_strings classes)
{
    tl_finished run = {0};
    tl_packer packer;
    tl_status st;
    int64_t best = 0;
    float *shares = calloc((size_t)classes.count, sizeof *shares);
    if (!shares) return TL_FAIL_NOMEM((size_t)classes.count * sizeof *shares);
    st = tl_packer_init(&packer, tokenizer, LENGTH);
    if (st != TL_OK) {
        free(shares);
        return st;
    }
    TL_TRY_DONE(st, tl_packer_pack(&packer, (tl_bytes){sentence, strlen(sentence)}, (tl_bytes){0}));
    TL_TRY_DONE(
        st, tl_finished_open(&run, &(tl_finished_args){.registry = registry, .folder = folder}));
    TL_TRY_DONE(st, ask(shares, classes.count, &run, packer.ids.items, packer.ids.count));
    for (int64_t i = 1; i < classes.count; i++)
        if (shares[i] > shares[best]) best = i;
    printf("%s: %s, %.3f\n", sentence, classes.items[best], (double)shares[best]);
done:
    tl_finished_close(&run);
    tl_packer_deinit(&packer);
    free(shares);
    return st;
}

/* --- all of it -------------------------------------------------------------------------------- */

static tl_status finetune(char **paths, const char *sentence, tl_arena *arena)
{
    const char *pretrained = paths[0], *folder = paths[3];
    const char *vocabulary = tl_path_join(arena, pretrained, "vocab.txt");
    const char *train = tl_path_join(arena, folder, "train.tfrecord");
    const char *test = tl_path_join(arena, folder, "test.tfrecord");
    const tl_text_rows_args columns = {.first = "text", .label = "label"};
    tl_strings classes;
    tl_tokenizer *tokenizer = NULL;
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_logs *logs = NULL;
    tl_finished bert = {0};
    tl_status st;
    if (!vocabulary || !train || !test) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_mkdirs(folder));
    TL_TRY_DONE(
        st, tl_wordpiece_new(&tokenizer, &(tl_wordpiece_args){.vocab = vocabulary,
                                                              .rules = TL_WORDPIECE_MODEL_GARDEN}));
    TL_TRY_DONE(st, tl_text_classes_find(&classes, arena, paths[1], &columns));
    TL_TRY_DONE(st, write_records(train, paths[1], tokenizer, columns, classes));
    TL_TRY_DONE(st, write_records(test, paths[2], tokenizer, columns, classes));

    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_finished_read(
                        &bert, &(tl_finished_args){.registry = registry, .folder = pretrained}));
    const plan p = {&bert, pretrained, train, test, classes.count};
    TL_TRY_DONE(st, configure(&config, registry, arena, &p));
    TL_TRY_DONE(st, tl_logs_new(&logs));
    const tl_train_flags flags = {.mode = "train_and_eval", .model_dir = folder};
    const tl_run_args run = {.experiment = experiment}; // the folder remembers what it is
    TL_TRY_DONE(
        st,
        tl_launch(logs, &(tl_launch_args){
                            .registry = registry, .config = config, .flags = &flags, .run = &run}));
    printf("of the sentences it has not seen %.1f %% are judged right\n",
           100 * tl_logs_number_or(logs, "cls_accuracy", 0));
    st = judge(sentence, folder, registry, tokenizer, classes);
done:
    tl_logs_free(&logs);
    tl_config_free(&config);
    tl_finished_close(&bert);
    tl_registry_free(&registry);
    tl_tokenizer_free(&tokenizer);
    return st;
}

int main(int argc, char **argv)
{
    tl_arena *arena = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: %s PRETRAINED TRAIN_TABLE TEST_TABLE FOLDER SENTENCE\n", argv[0]);
        return 2;
    }
    tl_status st = tl_arena_new(&arena);
    if (st == TL_OK) st = finetune(argv + 1, argv[5], arena);
    if (st != TL_OK) fprintf(stderr, "%s: %s\n", argv[0], tl_error_message());
    tl_arena_free(&arena);
    return tl_exit_code(st);
}
