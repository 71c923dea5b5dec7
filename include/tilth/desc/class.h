/* Classes: const tables of methods with a common head.
 *
 *     typedef struct shape_class { tl_class cls; double (*area)(const shape *s); } shape_class;
 *     static const shape_class square = {
 *         .cls = TL_CLASS(shape_class, "square", &any_shape.cls, square_shape, &square_desc),
 *         .area = square_area,
 *     };
 *
 * A method left NULL is inherited from `base`; "super" is a plain call through the base's table.
 * The head carries the size of the table it was compiled with, so that methods added at the end of
 * a table later do not break older plug-ins: for them the new methods are simply not there.
 *
 * The struct of an instance begins with that of the base's instances, which are public for this. A
 * class that needs no members of its own may leave `size` 0: its instances are as large as those of
 * its base. One that is too small is TL_EINVAL, when it is registered and whenever an instance is
 * made; so is a config that does not derive from that of the base.
 *
 * Thread word: immutable. */
#ifndef TILTH_DESC_CLASS_H
#define TILTH_DESC_CLASS_H

#include <tilth/desc/desc.h>

TL_BEGIN

struct tl_class {
    size_t class_size; /* of the whole table, as compiled */
    const char *name;
    const tl_class *base; /* methods left NULL are taken from here */
    /* of an instance; 0: that of the base, or of the kind. Allocated zeroed */
    size_t size;
    /* described struct that an instance is made from; NULL: that of the base, or none */
    const tl_desc *config;
    const char *help;
};

/* TL_CLASS(tl_task_class, "mine", &base.cls, my_task, &my_desc, .help = "..."), the help
 * optional. */
#define TL_CLASS(class_type, class_name, class_base, instance_type, ...)                           \
    TL_TABLE_(tl_class, .class_size = sizeof(class_type), .name = (class_name),                    \
              .base = (class_base), .size = sizeof(instance_type), .config = __VA_ARGS__)

/* A kind of class: what its table must hold. */
typedef struct tl_method {
    const char *name;
    size_t offset;
    bool required;
} tl_method;
struct tl_kind {
    const char *name, *plural; /* "optimizer", "optimizers" */
    const char *help;
    size_t class_size;        /* of the table in this library; older plug-ins may have less */
    const tl_method *methods; /* then {NULL}; NULL when the kind has none */
    /* the config of each class must derive from it; NULL: any or none */
    const tl_desc *config_base;
    bool config_required;
    /* The config names the class: one class a config, found with tl_registry_find_by_config. */
    bool by_config;
    /* Names are keys in configurations (of one-ofs): letters, digits, '_' and '-' alone. gin can
     * name the classes of such a kind (gin.h). */
    bool names_are_keys;
    /* Optional: what else must hold of a class. */
    tl_status (*verify)(const tl_class *cls);
    /* What each instance begins with: "tl_hook", and its size. NULL and 0: there are no
     * instances. */
    const char *instance;
    size_t instance_size;
};
/* Both, in the table of a kind: TL_INSTANCE(tl_hook). */
#define TL_INSTANCE(type) .instance = #type, .instance_size = sizeof(type)
#define TL_METHOD(class_type, method, is_required)                                                 \
    TL_INIT(#method, offsetof(class_type, method), is_required)

/* Dispatch. The table of the nearest class up the base chain that has the method, NULL when none
 * has; a flag or another member of a table is found the same way, where it is not zero:
 *     const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, start);
 *     return with ? with->start(h, config) : TL_OK;
 * A method that its kind requires is there:
 *     return TL_CLASS_METHOD(tl_dataset_class, d->cls, rewind)->rewind(d); */
#define TL_CLASS_METHOD(class_type, class_of, method)                                              \
    ((const class_type *)tl_class_with(TL_CLASS_HEAD_(class_type, class_of),                       \
                                       offsetof(class_type, method),                               \
                                       sizeof(((const class_type *)0)->method)))
/* The method itself, of a class that inherits from the table `last` whether it names it or not:
 *     return TL_CLASS_METHOD_OR(tl_task_class, t->cls, train_step, tl_base_task)(t, s); */
#define TL_CLASS_METHOD_OR(class_type, class_of, method, last)                                     \
    (TL_CLASS_METHOD(class_type, class_of, method)                                                 \
         ? TL_CLASS_METHOD(class_type, class_of, method)->method                                   \
         : (last).method)
/* `class_of` is a table of that type, or the head of one. */
#ifndef __cplusplus
#define TL_CLASS_HEAD_(class_type, class_of)                                                       \
    ((const tl_class *)_Generic((class_of),                                                        \
        const tl_class *: (class_of),                                                              \
        const class_type *: (class_of)))
#else
#define TL_CLASS_HEAD_(class_type, class_of) (reinterpret_cast<const tl_class *>(class_of))
#endif
/* Whether the class itself has it, whatever its bases have. */
#define TL_CLASS_HAS(class_type, class_of, method)                                                 \
    tl_class_has(TL_CLASS_HEAD_(class_type, class_of), offsetof(class_type, method),               \
                 sizeof(((const class_type *)0)->method))
/* True when the class itself has something other than zeros in the slot of `size` bytes at
 * `offset`; false also when its table was compiled without that slot. */
TL_API bool tl_class_has(const tl_class *cls, size_t offset, size_t size);
/* The nearest class up the base chain that has something there; NULL when none has. */
TL_API const void *tl_class_with(const tl_class *cls, size_t offset, size_t size);
/* The config of the class, or of the nearest base that has one; NULL when none has. */
TL_API const tl_desc *tl_class_config(const tl_class *cls);
/* True when `base` is in the chain of `cls`. */
TL_API bool tl_class_is(const tl_class *cls, const tl_class *base);
/* Required methods there (the message names the one that lacks), sizes and chain sound, config
 * verified. Registration calls it. */
TL_API TL_NODISCARD tl_status tl_class_verify(const tl_kind *kind, const tl_class *cls);
/* How large an instance must be: what the class says, or the nearest of its bases that says
 * something. Verifies the same but for the config, and costs little. Whatever makes instances
 * begins with it. */
TL_API TL_NODISCARD tl_status tl_class_instance_size(size_t *out, const tl_kind *kind,
                                                     const tl_class *cls);

TL_END

#endif
