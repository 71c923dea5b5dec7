/* What README.md, the manual page and the pages below docs tell people to type is typed here, in a
 * folder that has the files they speak of; where a page quotes the answer, it is compared. The
 * flags and keys that they name are there. needs: no sanitizer; takes: long */
#include "tool/pages.h"
#include "tool/photos.h"

#include <ctype.h>
#include <sys/wait.h>

#include <tilth/io/idx.h>

#define ROOT TEST_DATA "/../"

/* --- what commands need ----------------------------------------------------------------------- */

/* A command that is not in this table is run as the page has it, and ends with 0. */
typedef struct need {
    const char *said;    // by a page, with one space between words
    const char *more;    // words that are put behind it, in place of "..." when it ends so
    const char *instead; // what is run, because the page has words that stand for others
    const char *why;     // why nothing is run
    int code;
    bool any_answer; // the quoted one comes of a longer training
} need;

#define SHORT " tilth.jit=false tilth.threads=1 tilth.seed=1"
#define FEW_SHAPES                                                                                 \
    "trainer.train_steps=2 trainer.steps_per_loop=2 trainer.validation_interval=2 "                \
    "task.train_data.synthetic_examples=4 task.train_data.global_batch_size=2 "                    \
    "task.validation_data.synthetic_examples=2 task.validation_data.global_batch_size=2"
#define FEW_IMAGES "trainer.train_steps=2 task.model.input_size=[16,16,3] "
#define CLOTHES(which, name)                                                                       \
    "task." which ".input_path=" name "-images-idx3-ubyte.gz," name "-labels-idx1-ubyte.gz "
#define MOCK                                                                                       \
    "trainer.optimizer_config.optimizer.type=sgd "                                                 \
    "trainer.optimizer_config.learning_rate.type=constant "                                        \
    "trainer.optimizer_config.learning_rate.constant.learning_rate=0.1 trainer.steps_per_loop=20 " \
    "trainer.summary_interval=20 trainer.checkpoint_interval=50 trainer.validation_steps=2" SHORT
#define ELSEWHERE "tests/tool/test_commands.c runs it"

static const need needs[] = {
    // README.md
    {.said = "tilth train --experiment=fashion_mnist/cnn --mode=train_and_eval "
             "--model_dir=build/demo/fashion_mnist",
     .more =
         "--progress=bar trainer.train_steps=2 task.validation_data.global_batch_size=50 " CLOTHES(
             "train_data", "train") CLOTHES("validation_data", "t10k") SHORT},
    {.said =
         "tilth predict --model_dir=build/demo/fashion_mnist --count=2 t10k-images-idx3-ubyte.gz",
     .any_answer = true},
    {.said = "tilth train --experiment=vision/local --mode=train_and_eval --model_dir=runs/local",
     .more = "trainer.train_steps=20" SHORT},
    {.said = "tilth train --experiment=images --mode=train_and_eval --model_dir=runs/mine "
             "task.train_data.input_path=photos",
     .more = "trainer.train_steps=4" SHORT},
    {.said = "tilth params --explain",
     .more = "--experiment=images task.train_data.input_path=photos"},
    {.said = "tilth train --experiment=table --mode=train_and_eval --model_dir=runs/t "
             "task.train_data.input_path=houses.csv task.target=price",
     .more = "trainer.train_steps=4" SHORT},
    // docs/processes.md
    {.said = "tilth launch -n 2 train ...",
     .more = "--experiment=vision/local --mode=train --model_dir=runs/pair trainer.train_steps=2"
             " task.train_data.global_batch_size=4" SHORT},
    {.said = "tilth launch -n 2 train --experiment=vision/local --mode=train_and_eval "
             "--model_dir=runs/two",
     .more = "trainer.train_steps=4 trainer.validation_steps=1" SHORT},
    {.said = "tilth train --experiment=vision/local --mode=train_and_eval --model_dir=runs/four "
             "tilth.lanes=4 tilth.processes=2",
     .more = "trainer.train_steps=4 trainer.validation_steps=1" SHORT},
    {.said = "tilth launch -n 2 explain --experiment=vision/local "
             "task.model.backbone.type=resnet task.model.backbone.resnet.model_id=18",
     .more = "--steps=1 task.train_data.global_batch_size=2 "
             "task.model.backbone.resnet.depth_multiplier=0.25" SHORT,
     .any_answer = true},
    // docs/trainers.md
    {.said = "tilth train --experiment=multitask/local --mode=train_and_eval "
             "--model_dir=runs/both",
     .more = "trainer.train_steps=20" SHORT},
    {.said = "tilth train --experiment=multitask/local --mode=train --model_dir=runs/joint "
             "trainer.trainer_type=joint",
     .more = "trainer.train_steps=20" SHORT},
    {.said = "tilth train --experiment=progressive/local --mode=train_and_eval "
             "--model_dir=runs/grown",
     .more = "trainer.train_steps=20 task.validation_data.synthetic_examples=64" SHORT},
    {.said = "tilth train --experiment=simclr/local --mode=train_and_eval "
             "--model_dir=runs/features",
     .more = "trainer.train_steps=10 task.validation_data.synthetic_examples=64" SHORT},
    {.said = "tilth train --experiment=simclr/local_finetuning --mode=train_and_eval "
             "--model_dir=runs/classifier task.init_checkpoint=runs/features",
     .more = "trainer.train_steps=10 task.validation_data.synthetic_examples=64" SHORT},
    {.said = "tilth train --experiment=vision/local --mode=train_and_eval "
             "--model_dir=runs/teacher trainer.train_steps=600 "
             "task.train_data.synthetic_examples=4096",
     .more = "trainer.train_steps=4" SHORT},
    {.said = "tilth train --experiment=vision/local_distilled --mode=train_and_eval "
             "--model_dir=runs/student task.teacher=runs/teacher",
     .more = "trainer.train_steps=10" SHORT},
    {.said = "tilth data show", .more = "photos"},
    {.said = "tilth data convert", .more = "photos --out=made/photos --overwrite"},
    {.said = "tilth train --experiment=detection/local --mode=train_and_eval "
             "--model_dir=runs/shapes",
     .more = FEW_SHAPES SHORT},
    {.said = "tilth eval_coco TRUTHS.json DETECTIONS.json",
     .why = "tests/tool/test_eval_coco.c runs the like"},
    {.said = "tilth train --experiment=segmentation/local --mode=train_and_eval "
             "--model_dir=runs/pixels",
     .more = FEW_SHAPES SHORT},
    {.said = "tilth data coco train2017 instances_train2017.json --out=coco/train --shards=32",
     .why = "tests/tool/test_data_coco.c runs the like"},
    {.said = "tilth data voc VOC2012 --split=train --masks --out=voc/train",
     .why = "tests/tool/test_data_folders.c runs the like"},
    {.said = "tilth data cityscapes cityscapes --split=train --out=cityscapes/train_fine",
     .why = "tests/tool/test_data_folders.c runs the like"},
    {.said = "tilth data annotations coco/val-*.tfrecord --out=val.json",
     .why = "tests/tool/test_data_coco.c runs the like"},
    {.said = "tilth data show coco/train-00000-of-00032.tfrecord --pictures=looked",
     .why = "tests/tool/test_data_coco.c runs the like"},
    {.said = "tilth eval --detections=found.json", .more = "--model_dir=runs/shapes"},
    {.said = "tilth data shapes", .more = "--out=made/shapes --count=2 --overwrite"},
    {.said = "tilth data shapes --seed=3 --count=500 --masks --out=made/val",
     .more = "--count=3 --overwrite"},
    {.said = "tilth data annotations made/val-*.tfrecord --masks --out=made/val.json",
     .instead = "tilth data annotations made/val-00000-of-00001.tfrecord --masks "
                "--out=made/val.json --overwrite"},
    {.said = "tilth data shapes --folders --count=3000 --out=made/first", .more = "--count=20"},
    {.said = "tilth data shapes --folders --count=50 --kinds=star,crescent,half,arrow,corner "
             "--out=made/second",
     .more = "--count=20"},
    {.said = "tilth train --experiment=images --mode=train_and_eval --model_dir=runs/first "
             "task.train_data.input_path=made/first task.model.backbone.type=resnet",
     .more = FEW_IMAGES "task.model.backbone.resnet.model_id=10 "
                        "task.model.backbone.resnet.depth_multiplier=0.1" SHORT},
    {.said = "tilth train --experiment=images --mode=train_and_eval --model_dir=runs/second "
             "task.train_data.input_path=made/second task.init_checkpoint=runs/first",
     .more = FEW_IMAGES SHORT},
    {.said = "tilth data coco", .why = "tests/tool/test_data_coco.c runs it"},
    {.said = "tilth data voc", .why = "tests/tool/test_data_folders.c runs it"},
    {.said = "tilth data cityscapes", .why = "tests/tool/test_data_folders.c runs it"},
    {.said = "tilth data pretraining",
     .more = "--vocab_file=vocab.txt --input_file=wiki.txt --output_file=made/wiki --overwrite"},
    {.said = "tilth data finetuning",
     .more = "--vocab_file=vocab.txt --train_file=reviews.csv --text_columns=review "
             "--label_column=stars --train_data_output_path=made/reviews --overwrite"},
    {.said = "tilth predict", .more = "--model_dir=runs/mine photos"},
    {.said = "tilth eval --confusion=svg", .more = "--model_dir=runs/mine"},
    {.said = "tilth eval --page", .more = "--model_dir=runs/mine"},
    {.said = "tilth export", .more = "--model_dir=runs/mine --to=exported"},
    {.said = "tilth explain", .more = "--experiment=vision/local --steps=1" SHORT},
    {.said = "tilth find_lr", .more = "--experiment=vision/local --steps=4" SHORT},
    {.said = "tilth find_lr --experiment=vision/local --min=1e-5 --max=10 --svg=rate.svg",
     .more = "--steps=4" SHORT},
    {.said = "tilth launch", .more = "-n 2 devices"},
    {.said = "tilth sweep",
     .more = "--experiment=vision/local --model_dir=seeds --grid tilth.seed=1,2 "
             "trainer.train_steps=4 tilth.jit=false tilth.threads=1"},
    {.said = "tilth compare", .more = "runs/local runs/mine"},
    {.said = "tilth plot", .more = "runs/local runs/mine"},
    {.said = "tilth board runs", .why = "it serves until it is ended; tests/browser runs it"},
    {.said = "tilth board", .why = "it serves until it is ended; tests/browser runs it"},
    {.said = "tilth train --board", .why = "tests/browser runs it"},
    {.said = "tilth report", .more = "runs/local --out=report.html"},
    {.said = "tilth params --experiment=mock trainer.train_stps=500", .code = 2},
    {.said = "tilth train --experiment=mock --mode=train_and_eval --model_dir=run1 "
             "trainer.train_steps=100 ...",
     .more = MOCK},
    {.said = "tilth ckpt show|diff|verify",
     .instead =
         "tilth ckpt show run1 && tilth ckpt diff run1 run1/ckpt-100 && tilth ckpt verify run1"},
    {.said = "tilth ckpt merge", .more = "run1 -o made/merged.safetensors --overwrite"},
    {.said = "tilth ckpt convert", .more = "run1/ckpt-50 made/ckpt-50 --overwrite"},
    {.said = "tilth train_net", .more = "--config-file=mock.yaml --fast-dev-run"},
    // docs/language.md
    {.said = "tilth train --experiment=texts --mode=train_and_eval --model_dir=runs/reviews "
             "task.train_data.input_path=reviews.csv",
     .more = "trainer.train_steps=2 task.train_data.holdout=0.5" SHORT},
    {.said = "tilth tokenize", .more = "--vocab=uncased corpus.txt"},
    {.said = "tilth train --experiment=bert/pretraining --config_file=small.yaml --mode=train "
             "--model_dir=runs/wiki",
     .more = "--dry_run tilth.jit=false"},
    {.said = "tilth train --experiment=bert/sentence_prediction --config_file=reviews.yaml "
             "--mode=train_and_eval --model_dir=runs/stars",
     .more = "--dry_run tilth.jit=false"},
    // docs/trainers.md
    {.said = "tilth train --experiment=vision/local --mode=train --model_dir=runs/pretraining",
     .more = "trainer.train_steps=2" SHORT},
    {.said =
         "tilth train --experiment=vision/local --mode=continuous_train_and_eval "
         "--model_dir=runs/finetuned --pretrain_steps=200 task.init_checkpoint=runs/pretraining",
     .more = "--pretrain_steps=2 trainer.train_steps=2" SHORT},
    // docs/export.md
    {.said = "tilth export --model_dir=runs/mine --to=mine [--checkpoint=latest|best|PATH]",
     .instead = "for which in latest best runs/mine/ckpt-4.safetensors; do "
                "tilth export --model_dir=runs/mine --to=mine --checkpoint=$which || exit 1; done"},
    {.said = "tilth predict --model_dir=mine", .more = "photos/lying/1.png"},
    {.said = "tilth eval", .more = "--model_dir=mine"},
    {.said = "tilth train",
     .more =
         "--experiment=vision/local --mode=train --model_dir=another trainer.train_steps=1" SHORT},
    {.said = "tilth model", .why = "no command: the format of model.json"},
    {.said = "tilth describe layer NAME", .instead = "tilth describe layer dense"},
    // docs/vision.md: small weights stand for the large ones
    {.said = "tilth train --experiment=images --mode=train_and_eval --model_dir=runs/tuned "
             "task.train_data.input_path=photos task.init_checkpoint=resnet50.safetensors",
     .instead =
         "tilth train --experiment=vision/local --mode=train --model_dir=runs/small "
         "trainer.train_steps=1 'task.model.input_size=[32,32,3]' "
         "task.model.norm_activation.norm_epsilon=1e-5 'task.model.backbone={type: resnet, resnet: "
         "{model_id: 10, depth_multiplier: 0.125, symmetric_padding: true, "
         "identity_shortcuts: true}}'" SHORT
         " && tilth export --model_dir=runs/small --to=small --format=torchvision"
         " && tilth train --experiment=images --mode=train_and_eval --model_dir=runs/tuned "
         "task.train_data.input_path=photos task.init_checkpoint=small/model.safetensors "
         "'task.model.input_size=[32,32,3]' trainer.train_steps=4" SHORT},
    // the manual page
    {.said = "tilth sweep --experiment=vision/local --model_dir=rates --jobs=2 "
             "--grid task.train_data.global_batch_size=16,32 --runs=5 --random "
             "'trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=log(1e-4,1e-1)'",
     .more = "trainer.train_steps=1 trainer.validation_steps=1" SHORT},
    // the other pages
    {.said =
         "tilth train --plugin=./libdigits.so ... trainer.optimizer_config.optimizer.type=sign_sgd",
     .why = "the test example_plugin builds it and runs this"},
    {.said = "tilth train --plugin=...", .why = "the test example_plugin does it"},
    {.said = "tilth describe KIND NAME", .instead = "tilth describe optimizer adamw"},
    {.said = "tilth describe mine", .instead = "tilth describe mock"},
    {.said =
         "tilth train --experiment=fashion_mnist/cnn --mode=train_and_eval --model_dir=runs/cnn",
     .more = "--dry_run task.validation_data.global_batch_size=50 " CLOTHES("train_data", "train")
         CLOTHES("validation_data", "t10k") SHORT},
    {.said = "tilth explain --passes=FILE",
     .instead = "tilth explain --experiment=vision/local --steps=1 --passes=passes.txt" SHORT
                " && test -s passes.txt"},
    {.said = "tilth params --experiment=bert/pretraining "
             "--config_file=nlp/bert/experiments/wiki_books_pretrain.yaml 2>&1",
     .why = ELSEWHERE},
    {.said = "tilth params --experiment=image_classification "
             "--config_file=vision/experiments/small.yaml",
     .why = ELSEWHERE},
    {.said = "tilth train --experiment=bert/local --model_dir=run --mode=train "
             "--gin_file=nlp/gin/talking_gated_encoder.gin 2>&1",
     .why = ELSEWHERE},
    {.said = "tilth train --experiment=vision/local --model_dir=run --mode=train "
             "--gin_file=vision/gin/optimizer.gin 2>&1",
     .why = ELSEWHERE},
    {.said = "tilth train --experiment=bert/local --model_dir=tfnlp_sandbox/ --mode=train "
             "--alsologtostderr 2>&1",
     .why = ELSEWHERE},
    {.said = "tilth train --experiment=vision/local --model_dir=tfnlp_sandbox/ --mode=train "
             "--alsologtostderr 2>&1",
     .why = ELSEWHERE},
    {.said = "tilth params --experiment=NAME", .instead = "tilth params --experiment=table"},
    {.said = "tilth describe task digits", .instead = "tilth describe task mock"},
    {.said = "tilth train_net --config-file=F",
     .instead = "tilth train_net --config-file=mock.yaml --fast-dev-run"},
};
static bool needed[TL_COUNT(needs)];

/* --- the folder ------------------------------------------------------------------------------- */

static void put(const char *path, const char *text)
{
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

/* The columns that README.md tells of. */
static void put_houses(void)
{
    static const char *const cities[] = {"Oslo", "Rome", "Lima", "Bern"};
    tl_str s = TL_STR_INIT, fresh = TL_STR_INIT;
    tl_str_add(&s, "Id,area,rooms,built,city,garage,note,price\n");
    for (int i = 0; i < 120; i++) {
        double area = 30 + i * 37 % 170;
        if (i % 15 == 4) tl_str_addf(&s, "%d,,", i + 1);
        else tl_str_addf(&s, "%d,%g,", i + 1, area);
        tl_str_addf(&s, "%d,%d-%02d-%02d,%s,%s,a house with %d windows,%.2f\n", 1 + i * 7 % 12,
                    1920 + i * 53 % 100, 1 + i * 5 % 12, 1 + i * 11 % 28, cities[i * 3 % 4],
                    i % 3 == 0   ? ""
                    : i % 3 == 1 ? "yes"
                                 : "no",
                    i * i, area * (1000 + i * 29 % 700));
    }
    put("houses.csv", tl_str_text(&s));
    tl_str_add(&fresh, "area,rooms,built,city,garage\n80,3,1990-01-02,Oslo,yes\n");
    put("new.csv", tl_str_text(&fresh));
    tl_str_deinit(&s);
    tl_str_deinit(&fresh);
}

/* A vocabulary of letters, and texts. */
static void put_texts(void)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n.\n");
    for (char c = 'a'; c <= 'z'; c++) tl_str_addf(&s, "%c\n##%c\n", c, c);
    put("vocab.txt", tl_str_text(&s));
    tl_str_deinit(&s);
    put("wiki.txt", "The first sentence.\nThe second one.\n\nAnother document.\nIt goes on.\n");
    put("reviews.csv", "review,stars\n\"Good, and cheap.\",5\nBroken.,1\nThe best.,5\nBad.,1\n"
                       "It works.,5\nIt broke.,1\nFine.,5\nPoor.,1\n");
    put("new_reviews.csv", "review\nA good one.\n");
    put("GLUE/CoLA/train.tsv", "x\t1\t\tThey drank the pub dry.\nx\t0\t*\tThey drank the pub.\n");
    put("GLUE/CoLA/dev.tsv", "x\t1\t\tThe sailors rode the breeze clear.\n");
}

static void put_clothes(const char *name, int count)
{
    const tl_shape images = TL_SHAPE(count, 28, 28), row = TL_SHAPE(count);
    uint8_t *pixels = tl_arena_alloc(lab_arena, (size_t)count * 28 * 28), labels[256];
    assert_non_null(pixels);
    for (int i = 0; i < count * 28 * 28; i++) pixels[i] = (uint8_t)(i * 7 % 251);
    for (int i = 0; i < count; i++) labels[i] = (uint8_t)(i % 10);
    assert_ok(tl_idx_write(tl_arena_printf(lab_arena, "%s-images-idx3-ubyte.gz", name), TL_U8,
                           &images, pixels));
    assert_ok(tl_idx_write(tl_arena_printf(lab_arena, "%s-labels-idx1-ubyte.gz", name), TL_U8, &row,
                           labels));
}

static int shell(const char *line)
{
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What people have when they come to a page: data, files of configuration, a checkpoint of
 * TensorFlow's. */
static int settle(void **state)
{
    if (lab_open(state) != 0) return -1;
    const char *path = tl_arena_printf(lab_arena, "%s:%s",
                                       tl_path_dirname(lab_arena, TILTH_PROGRAM), getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("TILTH_DEVICE", "cpu", 0); // pages say nothing of a GPU that is not used
    put_photos("photos", 24);
    put_photos("flowers/train", 8);
    put_houses();
    put_clothes("train", 128);
    put_clothes("t10k", 100);
    put_texts();
    put("a.yaml", "trainer:\n  steps_per_loop: 50\n");
    put("base.yaml", "trainer: {validation_steps: 3}\n");
    put("run.flags", "--experiment=mock\n");
    put("reviews.yaml",
        "task: {model: {num_classes: 2, encoder: {bert: {vocab_size: 99, hidden_size: 8, "
        "num_layers: 1, num_attention_heads: 1, intermediate_size: 8}}}, train_data: {input_path: "
        "records/reviews.tfrecord, seq_length: 128, global_batch_size: 2}, validation_data: "
        "{input_path: records/reviews.tfrecord, seq_length: 128, global_batch_size: 2}}\n"
        "trainer: {train_steps: 9, optimizer_config: {learning_rate: {polynomial: {decay_steps: "
        "9}}, warmup: {polynomial: {warmup_steps: 2}}}}\n");
    put("small.yaml",
        "task: {model: {encoder: {bert: {vocab_size: 99, hidden_size: 8, num_layers: 1, "
        "num_attention_heads: 1, intermediate_size: 8}}, cls_heads: [{inner_dim: 8}]}, train_data: "
        "{input_path: records/wiki.tfrecord, seq_length: 128, max_predictions_per_seq: 20, "
        "global_batch_size: 2}}\n"
        "trainer: {optimizer_config: {learning_rate: {polynomial: {decay_steps: 9}}, warmup: "
        "{polynomial: {warmup_steps: 2}}}}\n");
    put("uncased/vocab.txt",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nweather\nis\nnice\ntoday\n.\n"
        "un\n##want\n##ed\nrunning\n");
    put("instances.json", "{\"images\": [{\"id\": 1}], \"categories\": [{\"id\": 1}], "
                          "\"annotations\": [{\"image_id\": 1, \"category_id\": 1, \"bbox\": "
                          "[0, 0, 9, 9], \"area\": 81}]}");
    put("detections.json", "[{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 9, 8], "
                           "\"score\": 0.5}]");
    put("corpus.txt", "The weather is nice today.\nUnwanted running\n");
    assert_ok(tl_mkdirs("resnet"));
    return shell("cp '" ROOT "examples/mock.yaml' '" ROOT
                 "examples/mock.py' . && for end in index data-00000-of-00001; do "
                 "cp '" TEST_DATA "/golden/tensorbundle/part.'$end resnet/ckpt-120.$end; done");
}

/* --- answers ---------------------------------------------------------------------------------- */

/* A piece of the bar of a training, three bytes of UTF-8. */
static bool bar_at(const char *at)
{
    return strncmp(at, "\xe2\x94\x80", 3) == 0 || strncmp(at, "\xe2\x94\x81", 3) == 0;
}

/* Behind the time and place of a message in the log, which the pages leave out. */
static const char *message_of(const char *line)
{
    const char *end =
        strchr("IWE", line[0]) && isdigit((unsigned char)line[1]) ? strstr(line, "] ") : NULL;
    return end ? end + 2 : line + strspn(line, " ");
}

/* With one sign for each number, for each name in '', for a bar and for each gap: other data gives
 * others. */
static const char *plain(const char *line, size_t length)
{
    tl_str s = TL_STR_INIT;
    const char *copy = tl_arena_printf(lab_arena, "%.*s", (int)length, line);
    char *end;
    for (const char *at = message_of(copy); *at;) {
        const char *close = *at == '\'' ? strchr(at + 1, '\'') : NULL;
        if (isdigit((unsigned char)*at)) tl_strtod(at, &end), at = end, tl_str_addc(&s, '#');
        else if (close) at = close + 1, tl_str_add(&s, "'#'");
        else if (bar_at(at))
            for (tl_str_addc(&s, '='); bar_at(at);) at += 3;
        else if (*at == ' ') at += strspn(at, " "), tl_str_addc(&s, ' ');
        else tl_str_addc(&s, *at++);
    }
    while (s.length && s.data[s.length - 1] == ' ') tl_str_cut(&s, s.length - 1);
    const char *found = tl_str_copy(&s, lab_arena);
    tl_str_deinit(&s);
    return found ? found : "";
}

/* The next line of what was said that is, or where the page ends with "..." begins as, this one;
 * NULL: there is none. */
static const char *find_line(const char *said, const char *line, size_t length)
{
    const char *dots = memmem(line, length, "...", 3);
    const char *wanted = plain(line, dots ? (size_t)(dots - line) : length);
    size_t size = strlen(wanted);
    for (const char *next; *said; said = next) {
        size_t end = strcspn(said, "\r\n"); // the bar goes back to the beginning of its line
        next = said + end + (said[end] != '\0');
        const char *found = plain(said, end);
        if (strncmp(found, wanted, size) == 0 && (dots || !found[size])) return next;
    }
    return NULL;
}

static void check_answer(const page_command *c, const char *said)
{
    for (const char *line = tl_str_text(&c->answer), *at = said, *next; *line; line = next) {
        next = line_end(line);
        size_t length = strcspn(line, "\n");
        if (!length) continue;
        at = find_line(at, line, length);
        if (!at)
            fail_msg("%s: `%s` does not say here:\n%.*s\nbut:\n%s", c->page, c->text, (int)length,
                     line, said);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static const need *need_of(const char *text)
{
    for (int64_t i = 0; i < TL_COUNT(needs); i++)
        if (strcmp(needs[i].said, text) == 0) {
            needed[i] = true;
            return &needs[i];
        }
    static const need nothing = {0};
    return &nothing;
}

static void run_command(const page_command *c)
{
    const need *n = need_of(c->text);
    if (n->why) return;
    size_t length = strlen(c->text),
           dots = length > 4 && strcmp(c->text + length - 4, " ...") == 0 ? 4 : 0;
    const char *more = n->more ? n->more : "";
    const char *line =
        n->instead ? n->instead
                   : tl_arena_printf(lab_arena, "%.*s %s", (int)(length - dots), c->text, more);
    char *said;
    size_t said_length;
    int code = shell(tl_arena_printf(lab_arena, "{ %s\n} >said.txt 2>&1 </dev/null", line));
    assert_ok(tl_file_read(&said, &said_length, "said.txt", 1 << 24));
    if (code != n->code)
        fail_msg(
            "%s: `%s`, run as\n  %s\nends with %d, not %d:\n%s\nWhat it needs here is to be added "
            "to the table `needs` in tests/tool/test_documents.c, or its files to `settle` there.",
            c->page, c->text, line, code, n->code, said);
    if (!n->any_answer) check_answer(c, said);
    tl_free(said);
}

/* The words of ./build.sh are not run here, but they are there. */
static void check_build_word(const page_command *c)
{
    char word[32] = "", name[32] = "";
    sscanf(c->text, "./build.sh %31s %31s", word, name);
    const char *there = tl_arena_printf(lab_arena, "grep -q '^word_%s()' '" ROOT "build.sh'", word);
    if (*name == '<') name[0] = '\0'; // stands for one
    if (strcmp(word, "bench") == 0 && *name)
        there = tl_arena_printf(
            lab_arena, "cd '" ROOT "bench' && ls | grep -qE '^(bench_)?%s[.](c|sh|py)$'", name);
    if (strcmp(word, "interop") == 0 && *name)
        there = tl_arena_printf(lab_arena, "test -f '" ROOT "tests/interop/check_%s.py'", name);
    if (shell(there) != 0) fail_msg("%s: `%s`: there is no such word or name", c->page, c->text);
}

static char *read_page(const char *page)
{
    char *text;
    size_t length;
    assert_ok(tl_file_read(&text, &length, tl_arena_printf(lab_arena, ROOT "%s", page), 1 << 22));
    return text;
}

static void run_page(const char *page)
{
    static page_reader reader;
    char *text = read_page(page);
    page_forget(&reader); // after a failure
    reader.page = page;
    size_t length = strlen(page);
    if (strcmp(page + length - 2, ".1") == 0) read_manual(&reader, text);
    else read_markdown(&reader, text);
    for (int i = 0; i < reader.count; i++) {
        if (strncmp(reader.items[i].text, "./build.sh ", 11) == 0)
            check_build_word(&reader.items[i]);
        else run_command(&reader.items[i]);
    }
    page_forget(&reader);
    tl_free(text);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_readme(void **state)
{
    (void)state;
    run_page("README.md");
}

static void test_manual(void **state)
{
    (void)state;
    assert_int_equal(shell("for run in run1 run2; do tilth train --experiment=mock --mode=train "
                           "--model_dir=out/$run trainer.train_steps=1000 " MOCK
                           " trainer.checkpoint_interval=1000 >said.txt 2>&1 || exit 1; done"),
                     0);
    run_page("docs/tilth.1");
}

/* With those that will be written. */
static void test_other_pages(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*.md", "docs/*.md", "docs/requirements/*.md"};
    for (int64_t i = 0; i < TL_COUNT(patterns); i++) {
        tl_path_list found;
        assert_ok(tl_glob(&found, lab_arena, tl_arena_printf(lab_arena, ROOT "%s", patterns[i])));
        for (int64_t k = 0; k < found.count; k++) {
            const char *page = found.items[k] + strlen(ROOT);
            // mistakes.sh
            bool elsewhere =
                strcmp(page, "README.md") == 0 || strcmp(page, "docs/mistakes.md") == 0;
            if (!elsewhere) run_page(page);
        }
    }
}

static void test_no_need_is_left(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(needs); i++)
        if (!needed[i])
            fail_msg("no page says `%s` any more; the table has it still", needs[i].said);
}

/* --- flags and keys --------------------------------------------------------------------------- */

static bool flag_in(const char *help, const char *flag, size_t length)
{
    if (length > 2 && strncmp(flag, "no", 2) == 0 && flag_in(help, flag + 2, length - 2))
        return true;
    const char *plain_form = tl_arena_printf(lab_arena, " --%.*s", (int)length, flag);
    const char *negated = tl_arena_printf(lab_arena, " --[no]%.*s", (int)length, flag);
    const char *ends = " =[\n"; // --board[=N]
    for (const char *at = help; (at = strstr(at, " --")); at++)
        for (int form = 0; form < 2; form++) {
            const char *wanted = form ? negated : plain_form;
            if (strncmp(at, wanted, strlen(wanted)) == 0 && strchr(ends, at[strlen(wanted)]))
                return true;
        }
    return false;
}

static char *said_by(const char *line)
{
    char *text;
    size_t length;
    int code = shell(tl_arena_printf(lab_arena, "{ %s\n} >said.txt 2>&1", line));
    assert_ok(tl_file_read(&text, &length, "said.txt", 1 << 24));
    if (code != 0) fail_msg("%s\nends with %d:\n%s", line, code, text);
    return text;
}

/* Each flag of the synopsis is one of its command, and each that the text names is one of some
 * command. */
static void test_flags_of_the_manual(void **state)
{
    (void)state;
    char *text = read_page("docs/tilth.1"), *help = NULL;
    char *all = said_by(
        "for c in $(tilth help | sed -n 's/^  \\([a-z_]*\\)  .*/\\1/p'); do tilth help $c; done");
    for (const char *line = text, *next; *line; line = next) {
        next = line_end(line);
        size_t end = (size_t)(next - line);
        bool synopsis = line < strstr(text, ".Sh DESCRIPTION");
        if (synopsis && strncmp(line, ".Nm\n.Cm ", 8) == 0) {
            tl_free(help);
            help = said_by(tl_arena_printf(lab_arena, "tilth help %.*s",
                                           (int)strcspn(line + 8, " \n"), line + 8));
        }
        for (const char *flag = line; (flag = memmem(flag, end - (size_t)(flag - line), "Fl -", 4));
             flag++) {
            size_t length = strspn(flag + 4, "abcdefghijklmnopqrstuvwxyz0123456789_-");
            if (!length || memchr(flag + 4, '.', strcspn(flag + 4, " \n"))) continue; // a key
            bool there = flag_in(synopsis && help ? help : all, flag + 4, length)
                         || strncmp(flag + 4, "version", 7) == 0
                         || strncmp(flag + 4, "helpfull", 8) == 0; // of every command
            if (!there)
                fail_msg("docs/tilth.1: there is no --%.*s: %.*s", (int)length, flag + 4, (int)end,
                         line);
        }
    }
    tl_free(help);
    tl_free(all);
    tl_free(text);
}

/* What gin may bind, in words such as `.Li Cnn.filters = [4]`, is bound in a run. */
static void test_bindings_of_the_manual(void **state)
{
    (void)state;
    int count = 0;
    char *text = read_page("docs/tilth.1");
    for (const char *at = strstr(text, ".Sh GIN"); at && (at = strstr(at, "Li ")); at++) {
        size_t line = strcspn(at + 3, "\n");
        const char *words = tl_arena_printf(lab_arena, "%.*s", (int)line, at + 3),
                   *equals = strstr(words, " = ");
        if (!equals || strncmp(equals, " = Ns", 5) == 0) continue;
        char *save, *list = tl_arena_strdup(lab_arena, words);
        for (char *one = strtok_r(list, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
            if (!strchr(one, '.') || !isalpha((unsigned char)one[0]))
                continue; // the name; "=" and the value follow it
            strtok_r(NULL, " ", &save);
            const char *value = strtok_r(NULL, " ", &save);
            assert_non_null(value);
            const char *flag = tl_arena_printf(lab_arena, "--gin_params='%s = %s'", one, value);
            tl_free(said_by(tl_arena_printf(lab_arena,
                                            "tilth train --experiment=vision/local --mode=train "
                                            "--model_dir=gin%d trainer.train_steps=1 %s" SHORT,
                                            count++, flag)));
        }
    }
    assert_true(count >= 3);
    tl_free(text);
}

/* A key such as task.train_data.input_path, which an experiment has. */
static bool key_is_there(const char *key)
{
    static const char *const experiments[] = {"images",          "table",
                                              "texts",           "mock",
                                              "multitask/local", "progressive/local",
                                              "simclr/local",    "vision/local_distilled"};
    for (int64_t i = 0; i < TL_COUNT(experiments); i++)
        if (shell(tl_arena_printf(lab_arena, "tilth describe %s %s >said.txt 2>&1", experiments[i],
                                  key))
            == 0)
            return true;
    return false;
}

static void check_keys(const char *page)
{
    static const char *const sections[] = {"task.", "trainer.", "runtime.", "tilth."};
    char *text = read_page(page);
    for (int64_t i = 0; i < TL_COUNT(sections); i++)
        for (const char *at = text; (at = strstr(at, sections[i])); at++) {
            bool begins = at > text && strchr(" `'-", at[-1]);
            size_t section = strlen(sections[i]),
                   length = section + strspn(at + section, "abcdefghijklmnopqrstuvwxyz_.");
            while (length && at[length - 1] == '.') length--;
            if (!begins || length <= section || at[length] == '(' || at[length] == '/') continue;
            const char *key = tl_arena_printf(lab_arena, "%.*s", (int)length, at);
            if (strcmp(key, "trainer.train_stps") == 0) continue; // a mistake that is shown
            if (!key_is_there(key)) fail_msg("%s: there is no key %s", page, key);
        }
    tl_free(text);
}

static void test_keys(void **state)
{
    (void)state;
    static const char *const pages[] = {"README.md", "docs/tilth.1", "docs/export.md",
                                        "docs/differences.md"};
    for (int64_t i = 0; i < TL_COUNT(pages); i++) check_keys(pages[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readme),
        cmocka_unit_test(test_manual),
        cmocka_unit_test(test_other_pages),
        cmocka_unit_test(test_no_need_is_left),
        cmocka_unit_test(test_flags_of_the_manual),
        cmocka_unit_test(test_bindings_of_the_manual),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests_name("documents", tests, settle, lab_close);
}
