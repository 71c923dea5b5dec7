/* Weights of Hugging Face and of BERT's first release: read into models of ours, whose numbers are
 * then Model Garden's; written; and refused. */
#include "zoo/language_lab.h"

#include <tilth/io/safetensors.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/ops/create.h>
#include <tilth/train/run/initialize.h>

static tl_str heard = TL_STR_INIT;
static int64_t sink;

static void hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    tl_str_addf(&heard, "%s\n", record->text);
}

static int open_lab(void **state)
{
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, NULL}));
    return lab_open(state);
}

static int close_lab(void **state)
{
    tl_log_sink_remove(sink);
    tl_str_deinit(&heard);
    heard = (tl_str)TL_STR_INIT;
    return lab_close(state);
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, text);
}

/* --- a folder of theirs ----------------------------------------------------------------------- */

/* How the folder is written. */
typedef struct how {
    bool bare;           /* names without "bert." */
    bool gamma;          /* and norms with gamma and beta */
    bool sharded;        /* two files and an index */
    bool v1;             /* a bundle of BERT's first release instead */
    bool no_heads;       /* the encoder alone */
    int64_t classes;     /* a classifier of so many */
    bool tied, untied;   /* with a table of its own for guessing */
    bool decoder_bias;   /* and the bias there */
    bool ids;            /* with the numbers of places */
    tl_dtype dtype;      /* TL_F32 */
    const char *without; /* a weight that lacks */
    const char *odd;     /* a weight with a row more */
    const char *more;    /* a weight that nobody knows */
} how;

typedef struct folder {
    const how *as;
    tl_engine *engine;
    tl_state *files[2];
    tl_tensorbundle_writer *bundle;
    tl_str map;
    int64_t count;
} folder;

static void put_tensor(folder *f, const char *name, tl_dtype dtype, tl_shape shape,
                       const double *values)
{
    tl_tensor *t;
    if (f->as->without && strcmp(name, f->as->without) == 0) return;
    if (f->as->odd && strcmp(name, f->as->odd) == 0) shape.dims[0]++;
    assert_ok(tl_tensor_new(&t, f->engine, dtype, shape));
    assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    const int file = f->as->sharded && f->count++ % 2;
    if (f->as->v1) assert_ok(tl_tensorbundle_writer_put_named(f->bundle, name, t));
    else assert_ok(tl_state_put(f->files[file], name, t));
    tl_str_addf(&f->map, "%s\"%s\": \"model-0000%d-of-00002.safetensors\"",
                f->map.length ? ", " : "", name, file + 1);
    tl_tensor_free(&t);
}

/* The i-th tensor of the rule, [inputs, outputs] as ours has it, turned when theirs are. */
static void put_values(folder *f, const char *name, int i, tl_shape shape, bool turned, bool scale)
{
    double values[128] = {0};
    const int64_t count = tl_shape_count(&shape), outputs = shape.dims[0], inputs = count / outputs;
    assert_true(count < 120);
    for (int64_t k = 0; k < count; k++) {
        const int64_t at = turned ? k % inputs * outputs + k / inputs : k;
        values[k] = (float)(0.3 * sin(i + 1 + 0.7 * (double)at) + scale);
    }
    put_tensor(f, name, f->as->dtype, shape, values);
}

/* Names of Hugging Face's, which those of the first release follow. */
static const char *spelt(const folder *f, const char *part, const char *last, bool head)
{
    static char name[2][160];
    static int turn;
    char *out = name[turn++ % 2];
    if (!f->as->v1) {
        snprintf(out, 160, "%s%s.%s", head || f->as->bare ? "" : "bert.", part, last);
        return out;
    }
    if (strcmp(last, "weight") == 0) last = "kernel";
    snprintf(out, 160, "%s%s/%s", head ? "" : "bert/", part, last);
    for (char *p = out; *p; p++)
        if (*p == '.') *p = '/';
    char *layer = strstr(out, "layer/");
    if (layer) layer[5] = '_';
    return out;
}

static void put_dense(folder *f, const char *part, int i, int64_t inputs, int64_t outputs,
                      bool head)
{
    const bool turned = !f->as->v1;
    put_values(f, spelt(f, part, "weight", head), i,
               turned ? TL_SHAPE(outputs, inputs) : TL_SHAPE(inputs, outputs), turned, false);
    put_values(f, spelt(f, part, "bias", head), i + 1, TL_SHAPE(outputs), false, false);
}

static void put_norm(folder *f, const char *part, int i, bool head)
{
    const bool gamma = f->as->gamma || f->as->v1;
    put_values(f, spelt(f, part, gamma ? "gamma" : "weight", head), i, TL_SHAPE(4), false, true);
    put_values(f, spelt(f, part, gamma ? "beta" : "bias", head), i + 1, TL_SHAPE(4), false, false);
}

static void put_table(folder *f, const char *name, int i, int64_t rows)
{
    char theirs[96];
    snprintf(theirs, sizeof theirs, "%sembeddings%c%s%s",
             f->as->v1     ? "bert/"
             : f->as->bare ? ""
                           : "bert.",
             f->as->v1 ? '/' : '.', name, f->as->v1 ? "" : ".weight");
    put_values(f, theirs, i, TL_SHAPE(rows, 4), false, false);
}

static void put_layer(folder *f, int layer, int i)
{
    static const char *const first[] = {"attention.self.query", "attention.self.key",
                                        "attention.self.value", "attention.output.dense"};
    char part[96];
#define PART(name) (snprintf(part, sizeof part, "encoder.layer.%d.%s", layer, name), part)
    for (int k = 0; k < 4; k++) put_dense(f, PART(first[k]), i + 2 * k, 4, 4, false);
    put_norm(f, PART("attention.output.LayerNorm"), i + 8, false);
    put_dense(f, PART("intermediate.dense"), i + 10, 4, 6, false);
    put_dense(f, PART("output.dense"), i + 12, 6, 4, false);
    put_norm(f, PART("output.LayerNorm"), i + 14, false);
#undef PART
}

static void put_heads(folder *f)
{
    const how *as = f->as;
    put_dense(f, "cls.predictions.transform.dense", 44, 4, 4, true);
    put_norm(f, "cls.predictions.transform.LayerNorm", 46, true);
    put_values(f,
               as->v1             ? "cls/predictions/output_bias"
               : as->decoder_bias ? "cls.predictions.decoder.bias"
                                  : "cls.predictions.bias",
               43, TL_SHAPE(11), false, false);
    put_values(f, as->v1 ? "cls/seq_relationship/output_weights" : "cls.seq_relationship.weight", 2,
               TL_SHAPE(2, 4), true, false);
    put_values(f, as->v1 ? "cls/seq_relationship/output_bias" : "cls.seq_relationship.bias", 3,
               TL_SHAPE(2), false, false);
    if (as->tied || as->untied)
        put_values(f, "cls.predictions.decoder.weight", as->tied ? 4 : 5, TL_SHAPE(11, 4), false,
                   false);
}

#define CONFIG_OF(words, more)                                                                     \
    "{\"architectures\": [\"BertForPreTraining\"], \"model_type\": \"bert\", "                     \
    "\"vocab_size\": " words                                                                       \
    ", \"hidden_size\": 4, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "                 \
    "\"intermediate_size\": 6, \"max_position_embeddings\": 8, \"type_vocab_size\": 2, "           \
    "\"hidden_act\": \"gelu_new\", \"hidden_dropout_prob\": 0, "                                   \
    "\"attention_probs_dropout_prob\": 0, \"layer_norm_eps\": 1e-12" more "}"
#define CONFIG CONFIG_OF("11", "")

static void put_text(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static void write_folder(const char *at, const how *as, const char *config)
{
    folder f = {.as = as, .map = TL_STR_INIT};
    char path[96];
    assert_ok(test_engine_new(&f.engine, NULL, 1));
    for (int i = 0; i < 2; i++) assert_ok(tl_state_new(&f.files[i]));
    assert_ok(tl_tensorbundle_writer_new(&f.bundle));
    put_table(&f, "word_embeddings", 4, 11);
    put_table(&f, "position_embeddings", 5, 8);
    put_table(&f, "token_type_embeddings", 6, 2);
    put_norm(&f, "embeddings.LayerNorm", 7, false);
    put_layer(&f, 0, 9);
    put_layer(&f, 1, 25);
    put_dense(&f, "pooler.dense", 0, 4, 4, false);
    if (!as->no_heads) put_heads(&f);
    if (as->classes) put_dense(&f, "classifier", 2, 4, as->classes, true);
    if (as->ids)
        put_tensor(&f, "bert.embeddings.position_ids", TL_I64, TL_SHAPE(1, 8),
                   (const double[8]){0});
    if (as->more) put_values(&f, as->more, 1, TL_SHAPE(3), false, false);
    assert_ok(tl_mkdirs(at));
    if (as->v1) {
        snprintf(path, sizeof path, "%s/bert_model.ckpt", at);
        assert_ok(tl_tensorbundle_writer_write(f.bundle, path));
    } else if (as->sharded) {
        tl_str index = TL_STR_INIT;
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/model-0000%d-of-00002.safetensors", at, i + 1);
            assert_ok(tl_safetensors_write(path, f.files[i], NULL, 0));
        }
        snprintf(path, sizeof path, "%s/model.safetensors.index.json", at);
        tl_str_addf(&index, "{\"metadata\": {}, \"weight_map\": {%s}}", tl_str_text(&f.map));
        put_text(path, tl_str_text(&index));
        tl_str_deinit(&index);
    } else {
        snprintf(path, sizeof path, "%s/model.safetensors", at);
        assert_ok(tl_safetensors_write(path, f.files[0], NULL, 0));
    }
    snprintf(path, sizeof path, "%s/%s", at, as->v1 ? "bert_config.json" : "config.json");
    if (config) put_text(path, config);
    tl_str_deinit(&f.map);
    tl_tensorbundle_writer_free(&f.bundle);
    for (int i = 0; i < 2; i++) tl_state_free(&f.files[i]);
    tl_engine_free(&f.engine);
}

/* --- models ----------------------------------------------------------------------------------- */

#define OPTIMIZER                                                                                  \
    "trainer:\n"                                                                                   \
    "  optimizer_config:\n"                                                                        \
    "    learning_rate: {polynomial: {decay_steps: 10}}\n"                                         \
    "    warmup: {polynomial: {warmup_steps: 2}}\n"
#define PRETRAINING_OF(encoder, task)                                                              \
    "task:\n"                                                                                      \
    "  model:\n"                                                                                   \
    "    encoder: " encoder "\n"                                                                   \
    "    cls_heads: [{inner_dim: 4, dropout_rate: 0}]\n"                                           \
    "  train_data: {input_path: dummy, seq_length: 6, max_predictions_per_seq: 2}\n"               \
    "  validation_data: {input_path: dummy, seq_length: 6, max_predictions_per_seq: 2}\n" task     \
    "\n" OPTIMIZER
#define BERT "{type: bert, bert: {" SIZES "}}"
#define PRETRAINING(task) PRETRAINING_OF(BERT, task)
#define SENTENCES(model, task)                                                                     \
    "task:\n"                                                                                      \
    "  model: {num_classes: 3, encoder: " BERT model "}\n"                                         \
    "  train_data: {input_path: dummy, seq_length: 6}\n"                                           \
    "  validation_data: {input_path: dummy, seq_length: 6}\n" task "\n" OPTIMIZER

/* A model that has begun, or the message why it has not. */
static tl_status begin(lab_run *r, const char *experiment, const char *yaml)
{
    lab_train(r, experiment, yaml);
    return tl_task_initialize(r->task, r->trainer->model);
}

static void refuse(const char *experiment, const char *yaml, tl_status status, const char *part)
{
    lab_run r;
    tl_status st = begin(&r, experiment, yaml);
    if (st != status) fail_msg("status %s: %s", tl_status_name(st), tl_error_message());
    has(tl_error_message(), part);
    lab_end(&r);
}
#define REFUSE(status, part)                                                                       \
    refuse("bert/pretraining", PRETRAINING("  init_checkpoint: there"), status, part)

static void check(const tl_tensors *out, const char *name, int64_t from, const double *want,
                  int count, double near)
{
    double have[64];
    tl_tensor *t = tl_tensors_peek(out, name);
    assert_non_null(t);
    assert_ok(tl_tensor_get_doubles(t, have, tl_tensor_count(t)));
    for (int i = 0; i < count; i++)
        if (!(fabs(have[from + i] - want[i]) < near))
            fail_msg("%s[%d] is %.7g and should be %.7g", name, i, have[from + i], want[i]);
}
#define CHECK(name, from, near, ...)                                                               \
    check(&out, name, from, (const double[]){__VA_ARGS__},                                         \
          (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), near)

/* The numbers that Model Garden gives with these weights. */
static void check_numbers(lab_run *r, double near)
{
    tl_ctx *c = r->trainer->ctx;
    tl_mark mark = tl_ctx_begin(c);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "input_word_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), ids));
    tl_tensors_put(c, &in, "input_mask", tl_from(c, TL_I32, TL_SHAPE(2, 6), mask));
    tl_tensors_put(c, &in, "input_type_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), types));
    tl_tensors_put(c, &in, "masked_lm_positions", tl_from(c, TL_I32, TL_SHAPE(2, 2), positions));
    tl_call_all(c, r->trainer->model, &in, &out);
    assert_ok(tl_ctx_status(c));
    CHECK("sequence_output", 0, near, -1.876592, -.546669, .32589, .523542, .770263, .790023,
          -.327209, -1.383489);
    CHECK("next_sentence", 0, near, -.16644, -.317104, -.167099, -.318334);
    CHECK("mlm_logits", 0, near, -.511442, .572094, .106959, .238606, .318241, -.512343, .271032,
          -.899854, .421965, -.527721, .607843);
    tl_ctx_end(c, mark);
}

/* The weight is the i-th of the rule. */
static void check_rule(tl_model *m, const char *path, int i)
{
    double have[64];
    const tl_param *p = tl_model_find(m, path);
    assert_non_null(p);
    assert_ok(tl_tensor_get_doubles(p->tensor, have, tl_tensor_count(p->tensor)));
    for (int64_t k = 0; k < tl_tensor_count(p->tensor); k++)
        if (!(fabs(have[k] - 0.3 * sin(i + 1 + 0.7 * (double)k)) < 1e-6))
            fail_msg("%s[%lld] is %.7g", path, (long long)k, have[k]);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void test_folders_give_the_originals_numbers(void **state)
{
    (void)state;
    static const how all[] = {{0},
                              {.bare = true},
                              {.gamma = true, .ids = true},
                              {.sharded = true},
                              {.tied = true, .decoder_bias = true, .more = "unknown"},
                              {.dtype = TL_F64},
                              {.v1 = true}};
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        lab_run r;
        char yaml[1024], at[16];
        snprintf(at, sizeof at, "there%lld", (long long)i);
        snprintf(yaml, sizeof yaml, PRETRAINING("  init_checkpoint: %s%s"), at,
                 i == 1 ? "/model.safetensors" : "");
        write_folder(at, &all[i], CONFIG);
        if (begin(&r, "bert/pretraining", yaml) != TL_OK) fail_msg("%s", tl_error_message());
        check_numbers(&r, 3e-6);
        check_rule(r.trainer->model, "encoder/pooler_transform/kernel", 0);
        lab_end(&r);
    }
    assert_string_equal(tl_str_text(&heard), "");
}

static void test_halves_are_read(void **state)
{
    (void)state;
    lab_run r;
    write_folder("there", &(how){.dtype = TL_F16}, CONFIG);
    assert_ok(begin(&r, "bert/pretraining", PRETRAINING("  init_checkpoint: there")));
    check_numbers(&r, 5e-3);
    lab_end(&r);
}

static void test_heads_that_lack_stay_as_they_are(void **state)
{
    (void)state;
    lab_run r;
    write_folder("there", &(how){.no_heads = true}, CONFIG);
    assert_ok(begin(&r, "bert/pretraining", PRETRAINING("  init_checkpoint: there")));
    check_rule(r.trainer->model, "encoder/layer_1/output/bias", 38);
    has(tl_str_text(&heard), "'there' has nothing for the head that guesses hidden words");
    has(tl_str_text(&heard), "'there' has nothing for the head that judges next sentences");
    lab_end(&r);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void test_what_does_not_fit_is_named(void **state)
{
    (void)state;
    write_folder("there", &(how){.without = "bert.encoder.layer.1.output.LayerNorm.weight"},
                 CONFIG);
    REFUSE(TL_EINVAL, "bert.encoder.layer.1.output.LayerNorm.weight");
    write_folder("there", &(how){.gamma = true, .without = "bert.embeddings.LayerNorm.beta"},
                 CONFIG);
    REFUSE(TL_EINVAL, "bert.embeddings.LayerNorm.beta");
    write_folder("there",
                 &(how){.odd = "bert.encoder.layer.0.intermediate.dense.weight", .more = "new"},
                 CONFIG);
    REFUSE(TL_EINVAL,
           "task.init_checkpoint: 'there' does not fit the model: 47 matched, 0 missing, "
           "1 unexpected, 1 different");
    REFUSE(TL_EINVAL, "F32[7, 4]");
    REFUSE(TL_EINVAL, "new");
    write_folder("there", &(how){.dtype = TL_I32}, CONFIG);
    REFUSE(TL_EINVAL, "I32[11, 4]");
    write_folder("there", &(how){.untied = true}, CONFIG);
    REFUSE(TL_EUNSUPPORTED, "one table serves both");
    write_folder("v1", &(how){.v1 = true, .without = "bert/pooler/dense/bias"}, NULL);
    refuse("bert/pretraining", PRETRAINING("  init_checkpoint: v1/bert_model.ckpt"), TL_EINVAL,
           "bert/pooler/dense/bias");
    put_text("v1/bert_model.ckpt.index", "damaged");
    refuse("bert/pretraining", PRETRAINING("  init_checkpoint: v1"), TL_EINVAL,
           "v1/bert_model.ckpt.index");
}

static void test_other_models_are_named(void **state)
{
    (void)state;
    write_folder("there", &(how){0}, CONFIG_OF("12", ", \"x\": 1"));
    REFUSE(TL_EINVAL, "task.init_checkpoint: there/config.json: the model has other sizes than "
                      "task.model.encoder.bert: vocab_size is 12 there, and vocab_size is 11; set "
                      "task.model.encoder.bert.vocab_size=12 (the vocabulary is another one");
    put_text("there/config.json", "{\"model_type\": \"roberta\"}");
    REFUSE(TL_EUNSUPPORTED, "\"model_type\" is 'roberta'");
    put_text("there/config.json", CONFIG_OF("11", ", \"position_embedding_type\": "
                                                  "\"relative_key\""));
    REFUSE(TL_EUNSUPPORTED, "relative_key");
    put_text("there/config.json", CONFIG_OF("11", ", \"is_decoder\": true"));
    REFUSE(TL_EUNSUPPORTED, "is_decoder");
    put_text("there/config.json", CONFIG_OF("1e3", ""));
    REFUSE(TL_EINVAL, "\"vocab_size\" should be a whole number from 1 to");
    put_text("there/config.json", CONFIG_OF("-1", ""));
    REFUSE(TL_EINVAL, "\"vocab_size\" should be");
    put_text("there/config.json", "[]");
    REFUSE(TL_EINVAL, "expected an object");
    put_text("there/config.json", "{");
    REFUSE(TL_EINVAL, "there/config.json:1: ");
    put_text("there/config.json", CONFIG);
    refuse("bert/pretraining",
           PRETRAINING_OF("{type: bert, bert: {norm_first: true, " SIZES "}}",
                          "  init_checkpoint: there"),
           TL_EUNSUPPORTED, "norm_first is true");
    refuse("bert/pretraining",
           PRETRAINING_OF("{type: bert, bert: {embedding_size: 3, " SIZES "}}",
                          "  init_checkpoint: there"),
           TL_EUNSUPPORTED, "embedding_size is not hidden_size");
    refuse("bert/pretraining",
           PRETRAINING_OF("{type: albert, albert: {" SIZES ", embedding_width: 4}}",
                          "  init_checkpoint: there"),
           TL_EUNSUPPORTED, "task.model.encoder.type is 'albert'");
}

static void test_folders_that_lack_something(void **state)
{
    (void)state;
    write_folder("there", &(how){0}, NULL);
    assert_int_equal(remove("there/model.safetensors"), 0);
    put_text("there/config.json", CONFIG);
    REFUSE(TL_ENOTFOUND, "there is neither model.safetensors nor model.safetensors.index.json");
    put_text("there/pytorch_model.bin", "x");
    REFUSE(TL_EUNSUPPORTED, "'there' has its weights as pytorch_model.bin, which is not read");
    assert_int_equal(remove("there/config.json"), 0);
    REFUSE(TL_EUNSUPPORTED, "save_pretrained");
    put_text("there/model.safetensors.index.json",
             "{\"weight_map\": {\"a\": \"../x.safetensors\"}}");
    REFUSE(TL_ENOTFOUND, "there is no config.json in the folder 'there'");
    put_text("there/config.json", CONFIG);
    REFUSE(TL_EINVAL, "'../x.safetensors' is not the name of a file beside it");
    put_text("there/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"x.bin\"}}");
    REFUSE(TL_EUNSUPPORTED, "'x.bin' is no file of safetensors");
    put_text("there/model.safetensors.index.json", "{\"weight_map\": {\"a\": 1}}");
    REFUSE(TL_EINVAL, "weight_map: expected names of files");
    put_text("there/model.safetensors.index.json", "{\"weight_map\": 1}");
    REFUSE(TL_EINVAL, "expected an object with a \"weight_map\"");
    put_text("there/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"x.safetensors\"}}");
    REFUSE(TL_ENOTFOUND, "x.safetensors");
    write_folder("there", &(how){.sharded = true}, CONFIG);
    put_text("there/model.safetensors.index.json",
             "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\"}}");
    REFUSE(TL_EINVAL, "'a' is said to lie in 'model-00001-of-00002.safetensors', and does not");
}

static void test_what_is_computed_otherwise_is_warned_of(void **state)
{
    (void)state;
    lab_run r;
    write_folder("there", &(how){0},
                 "{\"vocab_size\": 11, \"hidden_size\": 4, \"num_hidden_layers\": 2, "
                 "\"num_attention_heads\": 2, \"intermediate_size\": 6, "
                 "\"max_position_embeddings\": 8, \"hidden_act\": \"gelu\", \"layer_norm_eps\": "
                 "1e-05, \"hidden_dropout_prob\": 0.2, \"attention_probs_dropout_prob\": 0}");
    assert_ok(begin(&r, "bert/pretraining", PRETRAINING("  init_checkpoint: there")));
    const char *told = tl_str_text(&heard);
    has(told, "there/config.json: hidden_act is 'gelu', and "
              "task.model.encoder.bert.hidden_activation is 'gelu': set "
              "task.model.encoder.bert.hidden_activation=gelu_erf");
    has(told, "set task.model.mlm_activation=gelu_erf");
    has(told, "layer_norm_eps is 1e-05");
    has(told, "hidden_dropout_prob is 0.2, and task.model.encoder.bert.dropout_rate is 0: set "
              "task.model.encoder.bert.dropout_rate=0.2");
    assert_null(strstr(told, "attention_probs"));
    lab_end(&r);
}

/* --- sentences -------------------------------------------------------------------------------- */

static void test_hub_module_url_is_a_folder(void **state)
{
    (void)state;
    lab_run r;
#define HUB(word) SENTENCES("", "  hub_module_url: '" word "'")
    refuse("bert/sentence_prediction", HUB("https://tfhub.dev/bert/1"), TL_EUNSUPPORTED,
           "task.hub_module_url: 'https://tfhub.dev/bert/1': nothing is fetched from elsewhere");
    refuse("bert/sentence_prediction", HUB("nowhere"), TL_ENOTFOUND,
           "task.hub_module_url: 'nowhere' is no folder of Hugging Face");
    refuse("bert/sentence_prediction", SENTENCES("", "  hub_module_url: a\n  init_checkpoint: b"),
           TL_EINVAL, "exclude each other");
    write_folder("there", &(how){.no_heads = true, .classes = 3}, CONFIG);
    assert_ok(begin(&r, "bert/sentence_prediction", HUB("there")));
    check_rule(r.trainer->model, "encoder/layer_1/output/bias", 38);
    check_rule(r.trainer->model, "encoder/pooler_transform/kernel", 0);
    check_rule(r.trainer->model, "sentence_prediction/pooler_dense/kernel", 0);
    check_rule(r.trainer->model, "sentence_prediction/logits/kernel", 2);
    lab_end(&r);
    assert_string_equal(tl_str_text(&heard), "");
    write_folder("there", &(how){.no_heads = true, .classes = 2}, CONFIG);
    assert_ok(begin(&r, "bert/sentence_prediction", HUB("there")));
    has(tl_str_text(&heard), "a classifier of 2 classes, and task.model.num_classes is 3");
    lab_end(&r);
}

/* init_checkpoint gives the encoder alone; with init_cls_pooler its pooler too. */
static void test_the_encoder_alone(void **state)
{
    (void)state;
    lab_run r, without;
    write_folder("there", &(how){.classes = 3}, CONFIG);
    assert_ok(begin(&without, "bert/sentence_prediction",
                    SENTENCES("", "  init_checkpoint: ''\n  init_cls_pooler: true")));
    has(tl_str_text(&heard), "task.init_cls_pooler has no effect");
    for (int with = 0; with < 2; with++) {
        double a[12], b[12];
        assert_ok(begin(&r, "bert/sentence_prediction",
                        with ? SENTENCES("", "  init_checkpoint: there\n  init_cls_pooler: true")
                             : SENTENCES("", "  init_checkpoint: there")));
        tl_model *m = r.trainer->model;
        check_rule(m, "encoder/layer_0/self_attention/query/bias", 10);
        assert_ok(tl_tensor_get_doubles(
            tl_model_find(m, "sentence_prediction/logits/kernel")->tensor, a, 12));
        assert_ok(tl_tensor_get_doubles(
            tl_model_find(without.trainer->model, "sentence_prediction/logits/kernel")->tensor, b,
            12));
        assert_memory_equal(a, b, sizeof a);
        assert_ok(tl_tensor_get_doubles(
            tl_model_find(m, "sentence_prediction/pooler_dense/bias")->tensor, a, 4));
        if (with) check_rule(m, "sentence_prediction/pooler_dense/kernel", 0);
        else assert_true(a[0] == 0 && a[3] == 0); // as biases begin
        lab_end(&r);
    }
    lab_end(&without);
}

/* The dense layer of next_sentence, out of checkpoints of ours and of Model Garden. */
static void test_the_pooler_of_next_sentences(void **state)
{
    (void)state;
    lab_run from, r;
    tl_state *s;
    tl_original_names names;
    lab_train(&from, "bert/pretraining", PRETRAINING(""));
    put_pretrainer_rules(from.trainer->model);
    assert_ok(tl_state_new(&s));
    assert_ok(tl_model_state(from.trainer->model, s));
    assert_ok(tl_safetensors_write("ours.safetensors", s, NULL, 0));
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_task_original_names(from.task, &names));
    assert_ok(tl_original_write("theirs", s, &names, NULL));
    tl_original_names_deinit(&names);
    tl_state_free(&s);
    lab_end(&from);
    static const char *const yaml[] = {
        SENTENCES("", "  init_checkpoint: ours.safetensors\n  init_cls_pooler: true"),
        SENTENCES("", "  init_checkpoint: theirs\n  init_cls_pooler: true")};
    for (int i = 0; i < 2; i++) {
        if (begin(&r, "bert/sentence_prediction", yaml[i]) != TL_OK)
            fail_msg("%s", tl_error_message());
        check_rule(r.trainer->model, "sentence_prediction/pooler_dense/kernel", 0);
        check_rule(r.trainer->model, "sentence_prediction/pooler_dense/bias", 1);
        check_rule(r.trainer->model, "encoder/pooler_transform/kernel", 41);
        lab_end(&r);
    }
    refuse("bert/sentence_prediction",
           SENTENCES(", use_encoder_pooler: true",
                     "  init_checkpoint: theirs\n  init_cls_pooler: true"),
           TL_EINVAL, "task.init_cls_pooler: with task.model.use_encoder_pooler");
}

/* --- writing ---------------------------------------------------------------------------------- */

static tl_status export_model(lab_run *r, tl_strings classes, const char *at, tl_str *config)
{
    tl_state *model, *weights;
    tl_notes files = {0};
    char path[64];
    assert_ok(tl_state_new(&model));
    assert_ok(tl_state_new(&weights));
    assert_ok(tl_model_state(r->trainer->model, model));
    tl_status st = tl_task_export_weights(
        r->task, &(tl_export_args){.format = "hf", .model = model, .classes = classes}, weights,
        &files);
    if (st == TL_OK) {
        snprintf(path, sizeof path, "%s/model.safetensors", at);
        assert_ok(tl_mkdirs(at));
        assert_ok(tl_safetensors_write(path, weights, NULL, 0));
        snprintf(path, sizeof path, "%s/config.json", at);
        put_text(path, tl_notes_get(&files, "config"));
        tl_str_cut(config, 0);
        tl_str_add(config, tl_notes_get(&files, "config"));
    }
    tl_notes_deinit(&files);
    tl_state_free(&weights);
    tl_state_free(&model);
    return st;
}

static void test_what_is_written_is_what_was_read(void **state)
{
    (void)state;
    static const char *const words[] = {"no", "may\"be", "yes"};
    lab_run r;
    tl_str config = TL_STR_INIT;
    write_folder("there", &(how){0}, CONFIG);
    assert_ok(begin(&r, "bert/pretraining", PRETRAINING("  init_checkpoint: there")));
    assert_ok(export_model(&r, (tl_strings){NULL, 0}, "again", &config));
    assert_same_file("there/model.safetensors", "again/model.safetensors");
    has(tl_str_text(&config), "\"BertForPreTraining\"");
    has(tl_str_text(&config), "\"hidden_act\": \"gelu_new\"");
    has(tl_str_text(&config), "\"layer_norm_eps\": 1e-12");
    lab_end(&r);
    write_folder("classes", &(how){.no_heads = true, .classes = 3}, CONFIG);
    for (int pooled = 0; pooled < 2; pooled++) {
        assert_ok(begin(&r, "bert/sentence_prediction",
                        pooled
                            ? SENTENCES(", use_encoder_pooler: true", "  hub_module_url: classes")
                            : SENTENCES("", "  hub_module_url: classes")));
        assert_ok(export_model(&r, (tl_strings){words, 3}, "more", &config));
        assert_same_file("classes/model.safetensors", "more/model.safetensors");
        has(tl_str_text(&config), "\"BertForSequenceClassification\"");
        has(tl_str_text(&config), "\"1\": \"may\\\"be\"");
        has(tl_str_text(&config), "\"may\\\"be\": 1");
        lab_end(&r);
    }
    tl_str_deinit(&config);
}

static void refuse_export(const char *yaml, const char *part)
{
    lab_run r;
    tl_str config = TL_STR_INIT;
    lab_train(&r, "bert/pretraining", yaml);
    assert_int_equal(export_model(&r, (tl_strings){NULL, 0}, "out", &config), TL_EUNSUPPORTED);
    has(tl_error_message(), part);
    lab_end(&r);
    tl_str_deinit(&config);
}

static void test_models_without_such_a_form(void **state)
{
    (void)state;
    refuse_export(PRETRAINING_OF("{type: bert, bert: {norm_first: true, " SIZES "}}", ""),
                  "norm_first is true");
    refuse_export(PRETRAINING_OF("{type: bert_v2, bert_v2: {embedding_size: 3, " SIZES "}}", ""),
                  "task.model.encoder.bert_v2: embedding_size is not hidden_size");
    refuse_export(PRETRAINING_OF("{type: albert, albert: {" SIZES ", embedding_width: 4}}", ""),
                  "'albert'");
    refuse_export(PRETRAINING_OF(BERT "\n    mlm_activation: relu", ""),
                  "task.model.mlm_activation is 'relu'");
    refuse_export(
        PRETRAINING_OF("{type: bert, bert: {hidden_activation: softplus, " SIZES "}}", ""),
        "no activation 'softplus'");
    tl_gin *gin;
    assert_ok(tl_gin_new(&gin, lab_registry));
    assert_ok(tl_gin_parse(gin,
                           "build_encoder.encoder_cls = @EncoderScaffold\n"
                           "EncoderScaffold.hidden_cls = @TransformerScaffold\n",
                           "test.gin"));
    assert_ok(tl_gin_finalize(gin));
    tl_gin_set_current(gin);
    refuse_export(PRETRAINING(""), "gin makes an EncoderScaffold of it");
    tl_gin_set_current(NULL);
    tl_gin_free(&gin);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_lab, close_lab)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_folders_give_the_originals_numbers),
        TEST(test_halves_are_read),
        TEST(test_heads_that_lack_stay_as_they_are),
        TEST(test_what_does_not_fit_is_named),
        TEST(test_other_models_are_named),
        TEST(test_folders_that_lack_something),
        TEST(test_what_is_computed_otherwise_is_warned_of),
        TEST(test_hub_module_url_is_a_folder),
        TEST(test_the_encoder_alone),
        TEST(test_the_pooler_of_next_sentences),
        TEST(test_what_is_written_is_what_was_read),
        TEST(test_models_without_such_a_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
