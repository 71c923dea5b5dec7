/* Private to vision: weights of image classifiers as others keep them, in files of safetensors.
 *
 * A family is a backbone of ours and how its weights are called elsewhere; one table of families
 * (foreign_table.c) says which there are. Reading looks at names and shapes first: they say which
 * model it is, whatever lies beside the file.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_ZOO_VISION_FOREIGN_H
#define TLI_ZOO_VISION_FOREIGN_H

#include <jansson.h>
#include <tilth/zoo/vision.h>

#include "io/inner/json_text.h"
#include "zoo/foreign_files.h"

/* Whose names they are; those of timm's ResNets are torchvision's. */
typedef enum tli_vision_form {
    TLI_VISION_TORCHVISION,
    TLI_VISION_HF,
    TLI_VISION_TIMM,
    TLI_VISION_LIBAI,
    TLI_VISION_FORMS
} tli_vision_form;
extern const char *const tli_vision_form_names[TLI_VISION_FORMS]; /* for --format */

/* --- weights ---------------------------------------------------------------------------------- */

/* How a weight lies here and there. */
typedef enum tli_vision_layout {
    TLI_VISION_FILTERS,   /* [height, width, in, out]; [out, in, height, width] */
    TLI_VISION_DEPTHWISE, /* [height, width, in, times]; [in * times, 1, height, width] */
    TLI_VISION_DENSE,     /* [in, out]; [out, in] */
    TLI_VISION_QUERY,     /* [in, heads, size]; [heads * size, in] */
    TLI_VISION_GATHER,    /* [heads, size, out]; [out, heads * size] */
    TLI_VISION_HEADS,     /* [heads, size]; [heads * size] */
    TLI_VISION_TABLE,     /* [1, places, size] */
    TLI_VISION_VECTOR,
    TLI_VISION_COUNTER /* theirs alone: how many batches a norm has seen, which nobody asks */
} tli_vision_layout;
typedef struct tli_vision_weight {
    const char *ours; /* its path in the model; NULL: it has none */
    const char *theirs;
    tli_vision_layout layout;
    bool head; /* of the classifier, not of the backbone */
    /* Of QUERY and HEADS: theirs holds so many of ours (0: one), and this is which; they lie one
     * behind the other, or so for each head. */
    int64_t part, parts;
    bool by_head;
} tli_vision_weight;
typedef struct tli_vision_table {
    tli_vision_weight *items;
    int64_t count, capacity;
    tl_arena *arena; /* of the names */
    tl_status status;
} tli_vision_table;
/* Rows of the table: a kernel alone, a kernel and a bias, the four vectors of a batch norm. */
void tli_vision_add_kernel(tli_vision_table *t, tli_vision_layout layout, const char *ours,
                           const char *theirs);
void tli_vision_add_dense(tli_vision_table *t, const char *ours, const char *theirs);
void tli_vision_add_norm(tli_vision_table *t, const char *ours, const char *theirs);
/* One row, whose names are "OURS/NAME" and "THEIRS.THEIR_NAME"; NAME may be NULL. */
void tli_vision_add_weight(tli_vision_table *t, tli_vision_weight row, const char *ours,
                           const char *name, const char *theirs, const char *their_name);
/* A kernel and its norm: "OURS/conv" and "OURS/norm". */
void tli_vision_add_unit(tli_vision_table *t, tli_vision_layout layout, const char *ours,
                         const char *conv, const char *norm);
/* What Hugging Face calls an activation. */
const char *tli_vision_activation_name(tl_activation a);
/* "task.model.backbone.SECTION.KEY=VALUE", unless it is `same` already. */
void tli_vision_want(tl_str *words, bool same, const char *section, const char *key,
                     const char *value);

/* --- families --------------------------------------------------------------------------------- */

/* What weights are of, as far as their files say. */
typedef struct tli_vision_model {
    const struct tli_vision_family *family;
    tli_vision_form form;
    const char *prefix;        /* before names of the backbone: "resnet." or "" */
    void *backbone;            /* its configuration, in the arena; NULL: any */
    int64_t channels;          /* of its images */
    int64_t classes;           /* of its head; 0: it has none */
    double epsilon;            /* of its norms */
    tl_activation activation;  /* relu, unless they say another one */
    double mean[3], stddev[3]; /* of bytes: ImageNet's, unless they say others */
    int64_t side;              /* of images; 0: they do not say */
} tli_vision_model;

typedef struct tli_vision_family {
    const tl_backbone_class *backbone;
    const char *model_type;   /* in config.json of Hugging Face; its prefix, with a dot, too */
    const char *architecture; /* there */
    /* A weight of the backbone that all of its models have, and the layer that gives the classes.
     * Without a marker a form is not read, without a head it is not written. */
    const char *marker[TLI_VISION_FORMS], *head[TLI_VISION_FORMS];
    double epsilon[TLI_VISION_FORMS]; /* of norms, where nobody says another one */
    bool tells_epsilon;               /* Hugging Face's: "layer_norm_eps" */
    tl_activation activation;         /* where nobody says another one */
    bool own_activation;              /* no setting changes it */
    /* (optional) Puts epsilon and activation of a backbone of ours into the model, which otherwise
     * are those of norm_activation; then `compare` looks at them too. */
    void (*own_norms)(tli_vision_model *m, const void *config);
    /* (optional) A key of the backbone's that the files do not say; NULL: they say all. */
    const char *(*unknown)(const tli_vision_model *m);
    /* Finds out which of its models the files hold: makes `backbone`. */
    tl_status (*recognise)(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena);
    /* What config.json says beside that; `path` is for messages. */
    tl_status (*read)(tli_vision_model *m, const json_t *config, const char *path);
    /* Adds the rows of the backbone. */
    void (*rows)(tli_vision_table *t, const tli_vision_model *m);
    /* Words for a command line after which a model of ours is the one of the weights:
     * "task.model.backbone.resnet.model_id=18". Without the first ones weights do not fit, without
     * the second ones it computes something else. */
    void (*compare)(tl_str *needed, tl_str *advised, const tli_vision_model *theirs,
                    const void *ours);
    /* What config.json says of the backbone. */
    void (*describe)(tli_json *j, const tli_vision_model *m);
} tli_vision_family;
extern const tli_vision_family *const tli_vision_families[]; /* then NULL */
extern const tli_vision_family tli_vision_resnet, tli_vision_mobilenet, tli_vision_vit,
    tli_vision_libai_vit;

/* All rows of a model, head and backbone. */
TL_NODISCARD tl_status tli_vision_table_make(tli_vision_table *out, tl_arena *arena,
                                             const tli_vision_model *m);

/* --- files ------------------------------------------------------------------------------------ */

/* Whether a path means weights of others: a folder of Hugging Face or of timm, a file with names of
 * a family, or a file of Python objects, which reading refuses. */
bool tli_vision_is_foreign(const char *path);
/* Opens them, and finds out what they are. tli_foreign_close is due also after a failure. */
TL_NODISCARD tl_status tli_vision_open(tli_foreign_files *files, tli_vision_model *m,
                                       tl_arena *arena, const char *path);

/* --- models of ours --------------------------------------------------------------------------- */

/* The model begins with what lies at a path: the backbone, and with `head` the head too, where it
 * has as many classes. When something lacks or does not fit, nothing is written. */
TL_NODISCARD tl_status tli_vision_initialize(tl_task *t, tl_model *m, const char *path, bool head);
/* The method export_weights: all forms. */
TL_NODISCARD tl_status tli_vision_export(tl_task *t, const tl_export_args *args, tl_state *weights,
                                         tl_notes *files);
/* The experiment `images`: chooses model and normalisation by the weights to begin with. */
TL_NODISCARD tl_status tli_vision_choose(tl_config *config, const char *path);

#endif
