/* Sentences that a trained model is asked about one by one, and what its run keeps for that. */
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>
#include <tilth/text/classification.h>
#include <tilth/train/run/finished.h>

#include "zoo/language/sentence.h"

static const tl_text_task_config *own_config(const tl_task *t)
{
    return (const tl_text_task_config *)t->config;
}

static int64_t classes_of(const tl_task *t)
{
    const tl_sentence_model_config *m = t->config->model.value;
    return m ? m->num_classes : 0;
}

/* --- the vocabulary --------------------------------------------------------------------------- */

/* Records of texts are cut by tensorflow-text's rules; those of pieces were, unless their file says
 * otherwise, by Model Garden's. */
static tli_pieces_how how_of(const tl_task *t)
{
    if (tli_sentence_reads_own(t))
        return (tli_pieces_how){.rules = TL_WORDPIECE_HF, .lower = own_config(t)->lower_case};
    if (!tli_sentence_reads_texts(t)) return (tli_pieces_how){.rules = TL_WORDPIECE_MODEL_GARDEN};
    const tl_data_config *d =
        t->config->train_data ? t->config->train_data : t->config->validation_data;
    tli_pieces_how how = {.rules = TL_WORDPIECE_TF_TEXT};
    if (d) how.lower = (tl_opt_bool){true, ((const tl_sentence_text_data_config *)d)->lower_case};
    return how;
}

tl_status tli_sentence_start(tl_task *t)
{
    const tli_pieces_how how = how_of(t);
    if (!*t->logging_dir) return TL_OK;
    return tli_pieces_find(&((tli_sentence_task *)t)->pieces, t->arena, t->logging_dir, &how);
}

tl_status tli_sentence_need_pieces(tl_task *t)
{
    tli_pieces *p = &((tli_sentence_task *)t)->pieces;
    return p->tokenizer ? TL_OK : tli_texts_vocabulary(p, t->arena, own_config(t));
}

/* Of records of pieces: what lies beside them, where `tilth data finetuning` leaves it, or beside
 * the weights that the model begins with. It need not be there: the run can be trained without. */
static tl_status find_of_records(tl_task *t, tli_pieces *p)
{
    const tl_data_config *d = t->config->train_data;
    const tli_pieces_how how = how_of(t);
    tl_path_list paths = {0};
    if (d && tl_paths_given(d->input_path) && d->input_path->kind != TL_VALUE_MAP
        && tl_paths_match(&paths, t->arena, d->input_path) != TL_OK) {
        tl_error_clear(); // who reads them says so
        paths.count = 0;
    }
    if (paths.count) TL_TRY(tli_pieces_beside(p, t->arena, paths.items[0], &how));
    if (p->tokenizer) return TL_OK;
    return tli_pieces_of_weights(p, t->arena, t->config->init_checkpoint, &how);
}

static tl_status find_pieces(tl_task *t)
{
    tli_pieces *p = &((tli_sentence_task *)t)->pieces;
    if (p->tokenizer) return TL_OK;
    if (tli_sentence_reads_own(t)) return tli_sentence_need_pieces(t);
    if (!tli_sentence_reads_texts(t)) return find_of_records(t, p);
    const tl_sentence_text_data_config *d =
        (const tl_sentence_text_data_config *)t->config->train_data;
    const tli_pieces_how how = how_of(t);
    if (!d || !*d->vocab_file) return TL_OK;
    TL_TRY_NOTE(tli_pieces_open(p, t->arena, d->vocab_file, &how), "task.train_data.vocab_file");
    return TL_OK;
}

/* --- classes ---------------------------------------------------------------------------------- */

tl_status tli_sentence_set_classes(tl_task *t, tl_strings names)
{
    tli_sentence_task *s = (tli_sentence_task *)t;
    const char **copy = tl_arena_array(t->arena, names.count ? names.count : 1, sizeof *copy);
    if (!copy) return TL_ENOMEM;
    for (int64_t i = 0; i < names.count; i++)
        if (!(copy[i] = tl_arena_strdup(t->arena, names.items[i]))) return TL_ENOMEM;
    s->classes = (tl_strings){copy, names.count};
    return TL_OK;
}

static tl_strings names_of(const tl_task *t)
{
    const tl_strings noted = ((const tli_sentence_task *)t)->classes;
    return noted.count || !tli_sentence_reads_own(t) ? noted : own_config(t)->class_names;
}

/* Those of records lie beside them. */
static tl_status find_classes(tl_task *t)
{
    tli_sentence_task *s = (tli_sentence_task *)t;
    const tl_data_config *d = t->config->train_data;
    tl_path_list paths;
    if (s->classes.count || tli_sentence_reads_own(t) || classes_of(t) < 2) return TL_OK;
    if (!d || !tl_paths_given(d->input_path) || d->input_path->kind == TL_VALUE_MAP) return TL_OK;
    if (tl_paths_match(&paths, t->arena, d->input_path) != TL_OK) {
        tl_error_clear();
        return TL_OK;
    }
    TL_TRY(tl_class_list_beside(&s->classes, t->arena, paths.items, paths.count));
    if (!s->classes.count || s->classes.count == classes_of(t)) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "task.model.num_classes is %lld, and %s has %lld classes: set it to %lld",
                   (long long)classes_of(t), tl_class_list_path(t->arena, paths.items[0]),
                   (long long)s->classes.count, (long long)s->classes.count);
}

/* --- what a run keeps ------------------------------------------------------------------------- */

tl_status tli_sentence_export_files(tl_task *t, tl_notes *into)
{
    return tli_pieces_notes(&((tli_sentence_task *)t)->pieces, into);
}

tl_status tli_sentence_notes(tl_task *t, tl_notes *into)
{
    tl_str text = TL_STR_INIT;
    TL_TRY(find_classes(t));
    const tl_strings names = names_of(t);
    for (int64_t i = 0; i < names.count; i++) tl_str_addf(&text, "%s\n", names.items[i]);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK && names.count)
        st = tl_notes_put(into, "classes", TL_CLASSES_FILE, tl_str_text(&text));
    tl_str_deinit(&text);
    if (st == TL_OK) st = find_pieces(t);
    return st == TL_OK ? tli_sentence_export_files(t, into) : st;
}

/* --- predictions ------------------------------------------------------------------------------ */

static tl_status no_pieces(const tl_task *t)
{
    return TL_FAIL(TL_ENOTFOUND,
                   "'%s' has no vocabulary: put the vocab.txt that the run was trained with there",
                   *t->logging_dir ? t->logging_dir : "the run's folder");
}

/* As the data of the run has it: of own texts, a second one or none. */
static tl_status check_texts(const tl_task *t, bool pair)
{
    const tl_data_config *d =
        t->config->train_data ? t->config->train_data : t->config->validation_data;
    int64_t wanted;
    if (!d || (!tli_sentence_reads_own(t) && !tli_sentence_reads_texts(t))) return TL_OK;
    wanted = tli_sentence_reads_own(t)
                 ? 1 + (*((const tl_text_data_config *)d)->second_text_column != '\0')
                 : ((const tl_sentence_text_data_config *)d)->text_fields.count;
    if (wanted > 2)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the run judges %lld texts at a time; one, or a pair, can be "
                       "asked about",
                       (long long)wanted);
    if (wanted == 1 + pair) return TL_OK;
    return TL_FAIL(TL_EINVAL, wanted == 2
                                  ? "there is one text, and the run judges pairs"
                                  : "there are two texts, and the run judges one at a time");
}

static tl_status pack_alike(const tl_task *t, const tl_tokenizer *tokenizer, tl_bytes first,
                            tl_bytes second, int32_t *const inputs[3])
{
    const int64_t length = tli_sentence_length(t);
    tl_packer p;
    tl_status st = tl_packer_init(&p, tokenizer, length);
    if (st == TL_OK) st = tl_packer_pack(&p, first, second);
    for (int64_t i = 0; i < length && st == TL_OK; i++) {
        inputs[0][i] = i < p.ids.count ? p.ids.items[i] : 0;
        inputs[1][i] = i < p.ids.count;
        inputs[2][i] = i >= p.first && i < p.ids.count;
    }
    tl_packer_deinit(&p);
    return st;
}

tl_status tli_sentence_prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tli_sentence_task *s = (const tli_sentence_task *)t;
    const tl_tokenizer *tokenizer = s->pieces.tokenizer;
    const tl_bytes first = {q->data, q->size}, second = {q->second, q->second_size};
    int32_t *const places[3] = {inputs[0], inputs[1], inputs[2]};
    if (!tokenizer) return no_pieces(t);
    if (q->shape.rank) return TL_FAIL(TL_EINVAL, "an array is no text");
    TL_TRY(check_texts(t, q->second != NULL));
    const int64_t length = tli_sentence_length(t);
    if (tli_sentence_reads_texts(t))
        TL_TRY(tli_sentence_pack_texts(tokenizer, length, (const tl_bytes[]){first, second},
                                       q->second ? 2 : 1, places));
    else TL_TRY(pack_alike(t, tokenizer, first, second, places));
    return tli_check_words(tokenizer, places[0], length, &s->words);
}

tl_tensor *tli_sentence_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    tl_tensor *y = tl_cast(c, tl_tensors_get(c, outputs, "sentence_prediction"), TL_F32);
    return classes_of(t) > 1 ? tl_softmax(c, y, -1) : y;
}

void tli_sentence_answer_form(const tl_task *t, tl_answer_form *out)
{
    *out = (tl_answer_form){.classes = classes_of(t) > 1, .names = names_of(t)};
}

/* --- examples to look at ---------------------------------------------------------------------- */

/* Pieces that are no text: [CLS], [PAD]; the end of a sentence is where the next one begins. */
static void add_piece(tl_str *out, const char *piece)
{
    size_t length = strlen(piece);
    if (strcmp(piece, "[SEP]") == 0) tl_str_addc(out, '\n');
    else if (strncmp(piece, "##", 2) == 0) tl_str_add(out, piece + 2);
    else if (strcmp(piece, "[UNK]") == 0 || *piece != '[' || piece[length - 1] != ']')
        tl_str_addf(out, "%s%s", out->length && out->data[out->length - 1] != '\n' ? " " : "",
                    piece);
}

tl_status tli_sentence_show_example(const tl_task *t, const tl_batch *batch, int64_t row,
                                    tl_example_view *out)
{
    const tli_sentence_task *s = (const tli_sentence_task *)t;
    const tl_tokenizer *pieces = s->pieces.tokenizer ? s->pieces.tokenizer : s->tokenizers[0];
    tl_tensor *words = tl_cast(batch->ctx, tl_batch_get(batch, "input_word_ids"), TL_I64);
    tl_str text = TL_STR_INIT;
    tl_lease lease;
    if (!words) return tl_ctx_status(batch->ctx);
    if (!pieces) return TL_OK; // records of numbers, and nobody has said what they stand for
    int64_t length = words->shape.dims[1];
    TL_TRY(tl_lease_read(&lease, words));
    const int64_t *ids = (const int64_t *)lease.data + row * length;
    for (int64_t i = 0; i < length; i++) {
        const char *piece = tl_tokenizer_piece(pieces, ids[i]);
        if (piece) add_piece(&text, piece);
    }
    tl_lease_drop(&lease);
    while (text.length && text.data[text.length - 1] == '\n') tl_str_cut(&text, text.length - 1);
    out->text = tl_str_copy(&text, out->arena);
    tl_str_deinit(&text);
    return out->text ? TL_OK : TL_ENOMEM;
}
